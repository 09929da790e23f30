"""The lifecycle on S3 and on HDFS, by ``HEADRACE_STORE`` alone: what it makes is what it makes on a local disk.

By default the real servers get as far as the shards on S3 and the redacted documents on HDFS, through the command line,
which takes two minutes. ``HEADRACE_WHOLE_STORES=1`` runs the whole DAG through Airflow on both.
"""

from __future__ import annotations

import json
import os

import pytest

from tasks.core.artifact import Record
from tasks.core.location import names_in
from tasks.core.store import open_store
from tests.e2e.conftest import SMALL, Checkout

WHOLE = bool(os.environ.get("HEADRACE_WHOLE_STORES"))
BY_DEFAULT = {"s3": "shards", "hdfs": "redact"}
KNOBS = {"train.train_tokens": SMALL["train.train_tokens"], **SMALL["overrides"]}
SET = [word for name, value in KNOBS.items() for word in ("--set", f"{name}={value}")]
DESCRIBED = ("package", "smoke")
"""Their files name a build time or a duration; what they hold besides is compared by their results."""


def records(root: str) -> dict[str, Record]:
    """The only record of every stage of a store."""
    store, found = open_store(root), {}
    for stage in names_in(store.root):
        for artifact in store.artifacts(stage):
            (number,) = store.record_numbers(artifact)
            found[stage] = Record.from_json(store.read_record(artifact, number))
    return found


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("store_root", ["s3", "hdfs"], indirect=True)
def test_the_lifecycle_makes_the_same_bytes_on_every_store(checkout: Checkout, first_run, store_root, request):
    kind = store_root.partition(":")[0]
    run_on(checkout, store_root, kind)
    made = records(store_root)
    for stage, record in made.items():
        here = checkout.records(stage)[0]
        assert record.identity.key == Record.from_json(here).identity.key, stage
        if stage not in DESCRIBED:
            assert record.content_digest == here["content_digest"], stage
    assert len(made) == (11 if WHOLE else {"s3": 6, "hdfs": 3}[kind])
    server = request.getfixturevalue(f"{kind}_server")
    assert str(server.environment().get("AWS_SECRET_ACCESS_KEY", "no secret")) not in json.dumps(
        [record.to_json().decode() for record in made.values()]
    )


def run_on(checkout: Checkout, root: str, kind: str) -> None:
    """Run the lifecycle against a store that only the environment names."""
    if WHOLE:
        ran = checkout.dag(store=root)
    else:
        ran = checkout.tasks("run", "dags/lifecycle.yaml", *SET, "--only", BY_DEFAULT[kind], store=root)
    assert ran.code == 0, ran.output[-4000:]
