"""Random faults at random moments of a training by two processes: the next attempt resumes, and nobody can tell.

After each trial, besides what holds for every stage: the losses and the bytes are the undisturbed run's, and the ledger
proves that every sample was read exactly once per epoch.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from upath import UPath

from tasks.core.artifact import Identity, Record, content_digest, files_of, publish
from tasks.core.location import local
from tasks.core.store import open_store
from tasks.train.stage import TOKENIZER_FILES
from tasks.training import exactly_once
from tests.faults.faults import Fault, kill
from tests.faults.shares import numbers
from tests.faults.trial import next_attempt_after
from tests.faults.world import RANK, REAPER, STAGE, TORCHRUN, World
from tests.train.conftest import SMALL, write_shards

CONFIG = {**SMALL, "train_tokens": 40 * 96, "checkpoint_every": 8, "validation_every": 20}
"""Forty steps, of which a killed attempt loses at most eight."""


def retried(fault: Fault) -> Fault:
    """The attempt ends with an exit code that Airflow tries again, or well, if the fault came too late."""

    def checked(world: World, draw: random.Random) -> None:
        world.codes.clear()
        fault(world, draw)
        assert world.codes[-1] in (0, 75), (world.folder / "attempts.log").read_text()

    return checked


FAULTS: dict[str, Fault] = {
    "kill torchrun": retried(kill(TORCHRUN)),
    "kill a training process": retried(kill(RANK)),
    "kill the stage": kill(STAGE),
    "kill the reaper": kill(REAPER),
}


def published(store: Path, stage: str, write) -> str:
    """URI of an artifact with the files that ``write`` puts into a folder."""
    into = open_store(str(store))
    identity = Identity(stage=stage, version=1, knobs={}, inputs={})
    attempt = into.new_attempt(stage, identity.key)
    write(local(attempt))
    files = files_of(attempt)
    record = Record(identity, attempt.name, content_digest(attempt, files), files, result={})
    return publish(into, record, after=0, adopt=True).uri


def write_tokenizer(folder: Path) -> None:
    for name in TOKENIZER_FILES:
        (folder / name).write_text(json.dumps({"name": name}))


@pytest.fixture(scope="module")
def template(tmp_path_factory, undisturbed) -> World:
    """An undisturbed training to compare with."""
    store = tmp_path_factory.mktemp("inputs")
    counts = {"train": 2_000, "validation": 300, "test": 0}
    inputs = {
        "shards": published(store, "shards", lambda folder: write_shards(folder, counts)),
        "tokenizer": published(store, "tokenizer", write_tokenizer),
    }
    return undisturbed(tmp_path_factory.mktemp("train"), "train", CONFIG, inputs)


@pytest.mark.parametrize("number", numbers(usual=1, share=0.2))
def test_after_any_fault_the_training_ends_as_if_nothing_had_happened(number, template, tmp_path, monkeypatch):
    name = list(FAULTS)[number % len(FAULTS)]
    made = next_attempt_after(name, FAULTS[name], template, tmp_path, random.Random(number), monkeypatch)
    (expected,) = template.artifacts()
    assert made.record.result == expected.record.result
    assert made.record.result["final_train_loss"] < made.record.result["first_loss"]
    proof = exactly_once.check(local(UPath(made.path)) / "report" / "ledger")
    assert proof.num_whole_epochs == made.record.result["num_whole_epochs"] >= 1
