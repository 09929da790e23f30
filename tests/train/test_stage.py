from __future__ import annotations

import math
import re
import shutil
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM
from upath import UPath

from tasks.core import workspace
from tasks.core.config import validated
from tasks.core.errors import ConfigError, DataError, GateError
from tasks.lm.architecture import Shape, build_model
from tasks.lm.token_shards import TokenShards, sample_order
from tasks.train import fingerprint, stage
from tasks.train.config import TrainConfig
from tasks.train.initial import SHAPE
from tasks.training import checkpoint, exactly_once, ledger
from tasks.training.curve import read_curve
from tasks.training.exchange import Exchange
from tests.train.conftest import SMALL

LOSS_TOLERANCE = 1e-4
"""Nats between runs of different numbers of processes. Measured over 400 steps: under 1e-6, the rounding of fp32."""


def losses_of(path: Path) -> list[dict[str, Any]]:
    """A loss curve without what depends on the machine's mood."""
    return [{name: value for name, value in line.items() if name != "tokens_per_second"} for line in read_curve(path)]


def test_the_loss_falls(uninterrupted):
    assert uninterrupted.result.final_train_loss < uninterrupted.result.first_loss - 2


def test_the_first_loss_is_that_of_guessing(uninterrupted):
    assert uninterrupted.result.first_loss == pytest.approx(math.log(300), abs=0.05)


def test_the_artifact_is_a_model_whose_validation_loss_transformers_computes_too(uninterrupted, bench):
    model = AutoModelForCausalLM.from_pretrained(uninterrupted.out)
    tokens = TokenShards(bench.shards, "validation").window(0, 1000)
    stream, total = np.concatenate([[0], tokens]), 0.0
    for start in range(0, 1000, 16):
        piece = torch.from_numpy(stream[start : start + 17])[None]
        with torch.no_grad():
            total += model(input_ids=piece, labels=piece).loss.item() * (piece.shape[1] - 1)
    assert uninterrupted.result.validation_loss == pytest.approx(total / 1000, rel=1e-5)


def test_bits_per_byte_spread_the_loss_over_the_bytes_of_the_text(uninterrupted):
    per_byte = uninterrupted.result.validation_loss / math.log(2) / 3
    assert uninterrupted.result.validation_bits_per_byte == pytest.approx(per_byte)


def test_the_result_counts_what_was_read(uninterrupted):
    result = uninterrupted.result
    assert (result.num_steps, result.num_tokens, result.num_skipped_steps) == (400, 38_400, 0)
    assert result.num_epochs == pytest.approx(38_400 / 20_000, rel=1e-3)
    assert (result.num_whole_epochs, result.num_samples_seen) == (1, 19_999 // 16)
    assert result.num_parameters == sum(
        one.numel() for one in AutoModelForCausalLM.from_pretrained(uninterrupted.out).parameters()
    )


def test_the_tokenizer_travels_with_the_model(uninterrupted, bench):
    for name in stage.TOKENIZER_FILES:
        assert (uninterrupted.out / name).read_bytes() == (bench.tokenizer / name).read_bytes()


def test_metrics_arrive_on_the_axis_of_optimizer_steps(uninterrupted):
    named = {name: [step for one, _, step in uninterrupted.listener.metrics if one == name] for name in ("loss",)}
    assert named["loss"] == list(range(5, 401, 5))
    names = {name for name, _, _ in uninterrupted.listener.metrics}
    assert {"loss", "validation_loss", "learning_rate", "gradient_norm", "tokens_per_second"} <= names


def test_the_curve_shows_validation_at_its_interval(uninterrupted):
    curve = read_curve(uninterrupted.out / "report" / "training.jsonl")
    assert [line["step"] for line in curve if "validation_loss" in line] == [150, 300]


def test_a_terminated_run_saves_where_it_is_and_asks_to_be_run_again(eventful):
    assert eventful.terminated.exit_code == 75
    assert eventful.saved_when_terminated
    assert checkpoint.step_of(eventful.saved_when_terminated[0]) >= 60


def test_the_processes_listen_on_this_machine_only(eventful):
    assert eventful.listening == {"0100007F"}


def test_a_run_that_lost_a_process_names_the_step_it_resumes_from(eventful):
    assert eventful.killed.exit_code == 75
    assert f"resumes from step {checkpoint.step_of(eventful.damaged)}" in eventful.killed.next_step


def test_a_damaged_checkpoint_is_left_out_by_name(eventful):
    notes = eventful.made.listener.notes
    assert any(eventful.damaged in note and "altered" in note for note in notes)
    resumed = next(int(note.split()[3]) for note in notes if note.startswith("resuming from step"))
    assert 0 < resumed < checkpoint.step_of(eventful.damaged)


def test_a_run_with_interruptions_makes_the_same_bytes(uninterrupted, eventful):
    for name in ("model.safetensors", "config.json", "generation_config.json"):
        assert (eventful.made.out / name).read_bytes() == (uninterrupted.out / name).read_bytes()


def test_a_run_with_interruptions_has_the_same_curve_and_result(uninterrupted, eventful):
    report = Path("report", "training.jsonl")
    assert losses_of(eventful.made.out / report) == losses_of(uninterrupted.out / report)
    assert eventful.made.result == uninterrupted.result


def test_metrics_of_a_resumed_run_continue_the_axis(eventful):
    steps = [step for name, _, step in eventful.made.listener.metrics if name == "loss"]
    assert steps == list(range(steps[0], 401, 5))
    assert steps[0] >= 50


def rows_of(made) -> list[tuple[int, ...]]:
    """Step, number and place of every sample in an artifact's ledger, in the order of the run."""
    samples = np.sort(ledger.read(made.out / "report" / "ledger"), order=["number"])
    return samples[["step", "number", "place"]].tolist()


def test_the_ledger_proves_that_every_sample_was_read_once_per_epoch(uninterrupted, eventful, regrouped):
    for made in (uninterrupted, eventful.made, regrouped):
        proof = exactly_once.check(made.out / "report" / "ledger")
        assert (proof.num_read, proof.num_whole_epochs, proof.num_different) == (2400, 1, 1249)


def test_the_ledger_is_what_the_order_of_samples_says(uninterrupted):
    order = np.concatenate([sample_order(1249, epoch, seed=1) for epoch in (0, 1)])
    assert rows_of(uninterrupted) == [(number // 6 + 1, number, order[number]) for number in range(2400)]


def test_interruptions_and_other_processes_leave_the_ledger_the_same(uninterrupted, eventful, regrouped):
    assert rows_of(eventful.made) == rows_of(uninterrupted)
    assert rows_of(regrouped) == rows_of(uninterrupted)


def test_a_run_goes_on_with_another_number_of_processes(regrouped):
    samples = np.sort(ledger.read(regrouped.out / "report" / "ledger"), order=["number"])
    assert [num_processes for num_processes, _ in groupby(samples["num_processes"])] == [2, 1, 3]


def test_another_number_of_processes_comes_to_the_same_loss(uninterrupted, regrouped):
    """Close, and not equal: a mean over another number of processes adds the gradients in another order."""
    curves = [read_curve(made.out / "report" / "training.jsonl") for made in (uninterrupted, regrouped)]
    for one, other in zip(*curves, strict=True):
        assert other["step"] == one["step"]
        assert other["loss"] == pytest.approx(one["loss"], abs=LOSS_TOLERANCE)
    assert regrouped.result.validation_loss == pytest.approx(uninterrupted.result.validation_loss, abs=LOSS_TOLERANCE)


def test_a_ledger_that_contradicts_itself_refuses_the_model(doctored):
    told = str(doctored).splitlines()[1]
    assert re.fullmatch(r"  epoch 1: place \d+ was read 2 times: step 1 by rank 1, step 1 by rank 1", told)


def test_broken_initialisation_is_refused(bench):
    with pytest.raises(GateError, match=r"first loss is .* within 0\.5 of ln\(vocabulary\) = 5\.704"):
        bench.run("broken", initializer_range=1.0)


def test_a_run_without_an_initial_model_tells_nothing_of_one(uninterrupted):
    assert uninterrupted.result.initial_validation_loss is None


def test_a_run_starts_with_exactly_the_weights_of_its_initial_model(uninterrupted, continued):
    assert continued.result.initial_validation_loss == uninterrupted.result.validation_loss
    assert continued.result.first_loss < uninterrupted.result.first_loss - 2


def test_a_run_that_goes_on_has_its_own_steps_and_schedule(continued):
    curve = read_curve(continued.out / "report" / "training.jsonl")
    assert [line["step"] for line in curve] == list(range(5, 41, 5))
    assert curve[0]["learning_rate"] == max(line["learning_rate"] for line in curve)
    assert exactly_once.check(continued.out / "report" / "ledger").num_read == 240


def test_a_continued_run_with_an_interruption_makes_the_same_bytes(continued, continued_twice):
    assert any(note.startswith("resuming from step") for note in continued_twice.listener.notes)
    for name in ("model.safetensors", "config.json", "generation_config.json"):
        assert (continued_twice.out / name).read_bytes() == (continued.out / name).read_bytes()
    assert continued_twice.result == continued.result


def test_an_initial_model_that_learned_nothing_is_refused(bench, uninterrupted, tmp_path):
    shutil.copytree(uninterrupted.out, tmp_path / "untrained")
    shape = {name: SMALL[name] for name in SHAPE if name in SMALL}
    fresh = Shape(**shape, tie_embeddings=True, initializer_range=0.02, zero_residual=True)
    build_model(fresh, vocab_size=300, eos_id=0, seed=1).save_pretrained(tmp_path / "untrained")
    with pytest.raises(GateError, match=r"weights of the initial model did not arrive: the first loss is 5\.\d+ nats"):
        bench.run("unlearned", initial=tmp_path / "untrained")


def test_an_initial_model_of_another_shape_is_refused_before_any_process_starts(bench, uninterrupted):
    with pytest.raises(ConfigError, match=r"train\.ffn_size: is 65, the initial model has 64"):
        bench.run("reshaped", initial=uninterrupted.out, ffn_size=65)
    assert not Exchange(bench.root / "reshaped" / "workspace").logs.exists()


def test_too_few_tokens_says_how_many_are_needed(bench, tmp_path):
    config = validated(TrainConfig, {"train_tokens": 10**6, "global_batch": 128}, stage="train")
    with (
        workspace.bound(tmp_path / "workspace"),
        pytest.raises(DataError, match=r"holds 20000 tokens.*needs 32769"),
    ):
        stage.run(config, UPath(bench.shards), UPath(bench.tokenizer), out=UPath(tmp_path / "out"))


@pytest.mark.parametrize(("asked", "seen"), [("bf16", "bf16"), ("fp32", "fp32"), ("auto", "fp32")])
def test_the_precision_that_was_resolved_enters_the_identity(asked, seen, monkeypatch):
    monkeypatch.setattr(fingerprint, "faster_precision", lambda: "fp32")
    assert fingerprint.fingerprint(TrainConfig(precision=asked)) == {"precision": seen}
