"""A training whose store is S3 or HDFS, killed at random moments and continued by 1, 3 and 2 processes.

The ledger proves that every sample was read exactly once per epoch, whoever read it. Takes a minute a trial, so it runs
when asked for::

    HEADRACE_STORE_TRIALS=300 bin/with-env python -m pytest tests/faults/test_training_on_stores.py
"""

from __future__ import annotations

import random

import pytest
from upath import UPath

from tasks.core import remote_store
from tasks.core.artifact import newest
from tasks.core.copy import copy
from tasks.core.store import open_store
from tasks.core.transfer import local_copy
from tasks.training import exactly_once
from tests.faults.faults import kill
from tests.faults.test_every_store import HURRIED, TOTAL, TTL_S
from tests.faults.test_training import CONFIG, published, write_tokenizer
from tests.faults.trial import new_world
from tests.faults.world import RANK, STAGE, TORCHRUN, World
from tests.train.conftest import write_shards

PROCESSES = (2, 1, 3, 2)
"""How many train in each attempt; all but the last are killed."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> tuple[str, dict[str, str]]:
    """A local store, and in it what a training reads."""
    store = tmp_path_factory.mktemp("inputs")
    counts = {"train": 2_000, "validation": 300, "test": 0}
    return str(store), {
        "shards": published(store, "shards", lambda folder: write_shards(folder, counts)),
        "tokenizer": published(store, "tokenizer", write_tokenizer),
    }


@pytest.mark.skipif(not TOTAL, reason="a minute a trial; HEADRACE_STORE_TRIALS=300 runs it")
@pytest.mark.parametrize("store_root", ["s3", "hdfs"], indirect=True)
@pytest.mark.parametrize("number", range(max(1, TOTAL // 100)))
def test_every_sample_is_read_once_per_epoch_whoever_goes_on(
    store_root, number, inputs, migrated_database, tmp_path, monkeypatch
):
    store, draw = open_store(store_root), random.Random(number)
    monkeypatch.setattr(remote_store, "TTL_S", TTL_S)
    there = {name: copy(open_store(inputs[0]), uri, store).uri for name, uri in inputs[1].items()}
    (tmp_path / "empty.db").write_bytes(migrated_database.read_bytes())
    model = World(tmp_path, "train", CONFIG, there, seconds=25)
    (tmp_path / "trial").mkdir()
    world = new_world(model, tmp_path / "trial", monkeypatch, store_root)
    world.change = HURRIED
    for processes in PROCESSES:
        world.config = {**CONFIG, "num_processes": processes, "zero_stage": 0}
        if processes is PROCESSES[-1] and len(world.codes) == len(PROCESSES) - 1:
            assert world.attempt().wait(300) == 0, (world.folder / "attempts.log").read_text()
        else:
            kill(draw.choice([STAGE, RANK, TORCHRUN]))(world, draw)
        world.wait_for_silence()
    (artifact,) = store.artifacts("train")
    made = newest(store, UPath(artifact))
    with local_copy(made.path) as folder:
        proof = exactly_once.check(folder / "report" / "ledger")
    assert proof.num_whole_epochs == made.record.result["num_whole_epochs"] >= 1
