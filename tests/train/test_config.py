from __future__ import annotations

import pytest

from tasks.core.config import identity_of, validated
from tasks.core.errors import ConfigError
from tasks.train.config import TrainConfig


def make(**knobs) -> TrainConfig:
    return validated(TrainConfig, knobs, stage="train")


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"global_batch": 9}, "global_batch 9 must be a multiple of micro_batch 4 · num_processes 2 = 8"),
        ({"micro_batch": 3}, "global_batch 8 must be a multiple of micro_batch 3 · num_processes 2 = 6"),
        ({"num_processes": 3}, "global_batch 8 must be a multiple of micro_batch 2 · num_processes 3 = 6"),
        ({"num_processes": 16}, "global_batch 8 must be a multiple of micro_batch 1 · num_processes 16 = 16"),
        ({"zero_stage": 1}, "zero_stage 1 flattens the matrices that muon needs"),
        ({"hidden_size": 100}, "hidden_size 100 must be num_heads 3 times an even head size"),
        ({"num_kv_heads": 2}, "num_heads 3 must be a multiple of num_kv_heads 2"),
        ({"train_tokens": 100}, "train_tokens 100 is less than one step's 2048"),
        ({"lr": 0}, "train.lr"),
        ({"warmup_share": 1}, "train.warmup_share"),
    ],
)
def test_knobs_that_cannot_work_together_are_refused(knobs, message):
    with pytest.raises(ConfigError, match="(?s)" + message.replace(".", r"\.")):
        make(**knobs)


def test_all_that_is_wrong_is_told_at_once():
    with pytest.raises(ConfigError) as error:
        make(global_batch=9, num_kv_heads=2, zero_stage=2)
    assert all(part in str(error.value) for part in ("global_batch 9", "num_kv_heads 2", "zero_stage 2"))


@pytest.mark.parametrize(("num_processes", "micro"), [(1, 8), (2, 4), (8, 1)])
def test_the_micro_batch_left_to_us_needs_no_accumulation(num_processes, micro):
    assert make(num_processes=num_processes).samples_per_pass == micro


def test_how_a_run_is_divided_is_no_part_of_its_identity():
    one, other = make(), make(num_processes=1, micro_batch=2, log_every=1, checkpoint_every=0, validation_every=7)
    assert identity_of(one) == identity_of(other)


def test_tokens_are_rounded_down_to_whole_steps():
    assert make(train_tokens=2048 * 3 + 2047).num_steps == 3
