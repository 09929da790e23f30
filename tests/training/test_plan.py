from __future__ import annotations

from itertools import chain

import pytest

from tasks.training.deepspeed_config import deepspeed_config
from tasks.training.plan import Plan, batch_problems, zero_problems
from tests.training.plans import plan


def test_batch_is_micro_batch_times_accumulation_times_processes():
    config = deepspeed_config(plan())
    assert config["train_batch_size"] == 24
    assert config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"] * 3 == 24


@pytest.mark.parametrize(("zero_stage", "clip"), [(0, 0.0), (1, 1.0), (2, 1.0)])
def test_deepspeed_clips_only_where_it_also_checks(zero_stage, clip):
    assert deepspeed_config(plan(zero_stage=zero_stage))["gradient_clipping"] == clip


@pytest.mark.parametrize(("precision", "enabled"), [("bf16", True), ("fp32", False)])
def test_the_precision_decides_the_autocast(precision, enabled):
    assert deepspeed_config(plan(precision=precision))["torch_autocast"]["enabled"] is enabled


@pytest.mark.parametrize(("batch", "micro", "processes"), [(8, 4, 2), (8, 1, 8), (7, 7, 1)])
def test_a_batch_that_divides_has_no_problem(batch, micro, processes):
    assert batch_problems(global_batch=batch, micro_batch=micro, num_processes=processes) == []


@pytest.mark.parametrize(("batch", "micro", "processes"), [(8, 3, 2), (8, 0, 2), (2, 1, 4)])
def test_a_batch_that_does_not_divide_is_a_problem(batch, micro, processes):
    assert len(batch_problems(global_batch=batch, micro_batch=micro, num_processes=processes)) == 1


@pytest.mark.parametrize(("stage", "optimizer", "bad"), [(0, "muon", 0), (1, "muon", 1), (2, "adamw", 0)])
def test_muon_needs_whole_matrices(stage, optimizer, bad):
    assert len(zero_problems(zero_stage=stage, optimizer=optimizer)) == bad


@pytest.mark.parametrize(("micro", "processes"), [(24, 1), (4, 1), (6, 2), (1, 8), (2, 3)])
def test_a_step_reads_the_same_samples_however_it_is_divided(micro, processes):
    one = plan(micro_batch=micro, num_processes=processes)
    passes = [one.numbers(7, turn, rank) for turn in range(one.accumulation) for rank in range(processes)]
    assert list(chain(*passes)) == list(range(7 * 24, 8 * 24))


def test_a_plan_travels_as_json():
    assert Plan(**plan().as_json()) == plan()
