"""The nightly DAG on a running Airflow: a backfill, in which the champion has learned up to the last but one date.

Every stage is the real one, with small dials, which takes some minutes a date, so it runs when asked for: one date by
``HEADRACE_NIGHTS=1``, all three that the sample has by ``HEADRACE_NIGHTS=3``. Decisions are read from the artifacts and
from MLflow's registry.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import Checkout, Ran

ASKED_FOR = int(os.environ.get("HEADRACE_NIGHTS", "0"))
NIGHTS = ["2026-11-01", "2026-11-02", "2026-11-03"][-(ASKED_FOR or 3) :]
LEARNED = "2026-11-02"
SMALL: dict[str, Any] = {
    "train.train_tokens": 61_440,
    "overrides": {
        "shards.split.validation": 0.03,  # a part of what the lifecycle held out, so never learned from
        "evaluate.num_pairs": 0,
        "evaluate.sample_tokens": 1,
        "evaluate.stride": 256,
        "evaluate.max_baseline_tokens": 20_000,
    },
}
PATIENCE_S = 1200
pytestmark = [
    pytest.mark.timeout(PATIENCE_S + 300),
    pytest.mark.skipif(not ASKED_FOR, reason="minutes a date; HEADRACE_NIGHTS=1 runs one, 3 runs all"),
]


@dataclass(frozen=True)
class Nights:
    """What three nights made, by date."""

    checkout: Checkout
    states: dict[str, str]
    records: dict[str, dict[str, dict[str, Any]]]
    """Newest record of each stage, by the partition that was pinned, then by stage."""

    def decision(self, night: str) -> dict[str, Any]:
        result: dict[str, Any] = self.records[night]["promote"]["result"]
        return result


@pytest.fixture(scope="module")
def nights(checkout: Checkout, first_run: Ran) -> Iterator[Nights]:
    """The lifecycle's model in service, then the backfill, one date after the other.

    Its text lies where only the backfill looks: once the DAG is unpaused, Airflow may start a run for yesterday too,
    which must find nothing.
    """
    (checkout.root / "samples/nightly").rename(checkout.root / "var/incoming")
    (bento,) = checkout.root.glob("var/store/package/*/records")
    in_environment(checkout, "python", "-m", "tasks", "promote", str(bento.parent), "--partition", LEARNED)
    in_environment(checkout, "airflow", "dags", "reserialize")
    up = checkout.run("bin/airflow-up")
    try:
        assert up.code == 0, up.output
        in_environment(checkout, "airflow", "dags", "unpause", "nightly", "--yes")
        between = ["--from-date", NIGHTS[0], "--to-date", f"{NIGHTS[-1]}T23:00:00", "--max-active-runs", "1"]
        conf = {**SMALL, "overrides": {**SMALL["overrides"], "ingest.sources": sources(checkout)}}
        backfill = ["airflow", "backfill", "create", "--dag-id", "nightly", *between]
        in_environment(checkout, *backfill, "--dag-run-conf", json.dumps(conf))
        yield Nights(checkout, wait_for_all(checkout), records_by_night(checkout))
    finally:
        checkout.run("bin/airflow-down")


def in_environment(checkout: Checkout, *command: str) -> None:
    done = checkout.run("bin/with-env", *command)
    assert done.code == 0, done.output


def sources(checkout: Checkout) -> list[dict[str, Any]]:
    """The shipped sources, where their text lies now."""
    shipped = yaml.safe_load((checkout.root / "dags/nightly.yaml").read_text())["ingest"]["sources"]
    return [{**one, "path": one["path"].replace("samples/nightly", "var/incoming")} for one in shipped]


def wait_for_all(checkout: Checkout) -> dict[str, str]:
    """State of each date's run, once all have ended."""
    until = time.monotonic() + PATIENCE_S
    while True:
        states = states_of(checkout)
        if len(states) == len(NIGHTS) and not {"queued", "running"} & set(states.values()):
            return states
        assert time.monotonic() < until, states
        time.sleep(1)


def states_of(checkout: Checkout) -> dict[str, str]:
    with closing(sqlite3.connect(checkout.root / "var/airflow/airflow.db")) as database:
        rows = database.execute(
            "SELECT partition_key, state FROM dag_run WHERE dag_id = 'nightly' AND run_type = 'backfill'"
        ).fetchall()
    return dict(rows)


def records_by_night(checkout: Checkout) -> dict[str, dict[str, dict[str, Any]]]:
    """What each run noted that it asked for, read back."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for run in sorted((checkout.root / "var/store/runs/nightly").iterdir()):
        names = [json.loads(file.read_text())["artifact"] for file in run.glob("*.json")]
        records = [sorted((checkout.root / "var/store" / name / "records").glob("*.json"))[-1] for name in names]
        by_stage = {record["identity"]["stage"]: record for record in (json.loads(one.read_text()) for one in records)}
        found[by_stage["promote"]["config"]["partition"]] = by_stage
    return found


def test_every_date_has_one_run_that_ended_well(nights: Nights) -> None:
    assert nights.states == dict.fromkeys(NIGHTS, "success")
    assert sorted(nights.records) == NIGHTS


@pytest.mark.parametrize("night", NIGHTS)
def test_a_run_reads_the_partition_of_its_date_and_nothing_newer(nights: Nights, night: str) -> None:
    files = nights.records[night]["ingest"]["identity"]["fingerprint"]
    assert {name.partition("/")[0] for some in files.values() for name, _, _ in some} == {night}


@pytest.mark.parametrize("night", NIGHTS[:-1])
def test_nothing_older_than_the_champion_is_deployed(nights: Nights, night: str) -> None:
    decision = nights.decision(night)
    assert not decision["kept"]
    assert f"its partition {night} is not newer than the champion's {LEARNED}" in decision["reason"]
    assert decision["champion"] == "models:/headrace-lm/1"


def test_the_newer_night_made_the_champion_better_and_takes_its_place(nights: Nights) -> None:
    decision = nights.decision(NIGHTS[-1])
    assert decision["kept"], decision["reason"]
    assert decision["vs_champion"] < 1
    assert decision["partition"] == NIGHTS[-1]
    with closing(sqlite3.connect(nights.checkout.root / "var/mlflow/mlflow.db")) as database:
        aliases = dict(database.execute("SELECT alias, version FROM registered_model_aliases").fetchall())
    assert f"models:/headrace-lm/{aliases['champion']}" == decision["champion"]
    assert str(aliases["previous"]) == "1"


@pytest.mark.parametrize("night", NIGHTS)
def test_what_was_there_before_stays_and_is_not_learned_as_new(nights: Nights, night: str) -> None:
    records = nights.records[night]
    (known,) = [one["result"]["num_out"] for one in nights.checkout.records("dedup")[:1]]
    dedup = records["dedup"]["result"]
    assert dedup["num_known"] == known
    assert dedup["num_exact"] >= 10  # each night redelivers documents of the main sample
    assert dedup["num_out"] == known + dedup["num_in"] - dedup["num_exact"] - dedup["num_near"]
    assert records["shards"]["result"]["num_replayed"] > 100


@pytest.mark.parametrize("night", NIGHTS)
def test_training_goes_on_from_the_champion_with_its_tokenizer(nights: Nights, night: str) -> None:
    train = nights.records[night]["train"]
    first = nights.checkout.records("train")[0]
    assert train["identity"]["inputs"]["initial"] == first["content_digest"]
    assert train["identity"]["inputs"]["tokenizer"] == first["identity"]["inputs"]["tokenizer"]
    assert train["result"]["first_loss"] < first["result"]["first_loss"] - 1


def test_the_summary_is_of_the_newest_run_and_says_what_was_decided(nights: Nights) -> None:
    shown = nights.checkout.tasks("show", "dags/nightly.yaml")
    assert shown.code == 0, shown.output
    said = " ".join(shown.output.split())
    assert f"Kept better than version 1: {nights.decision(NIGHTS[-1])['vs_champion']:.4f}" in said
    assert "documents that were there before" in said


def test_a_night_that_brought_nothing_is_skipped(nights: Nights) -> None:
    ran = nights.checkout.run("bin/run-dag", "nightly", json.dumps({"overrides": {"ingest.partition": "2026-12-24"}}))
    assert ran.code == 0, ran.output
    assert f"nothing to do: there is no partition 2026-12-24, nor one since {NIGHTS[-1]}" in ran.output
    assert "ingest: runs" not in ran.output
