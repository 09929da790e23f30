"""The nightly DAG on a running Airflow: a backfill of three dates, in which the champion has learned up to the second.

Every stage is the real one, with small dials. Decisions are read from the artifacts and from MLflow's registry.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.conftest import Checkout, Ran

NIGHTS = ["2026-11-01", "2026-11-02", "2026-11-03"]
LEARNED = "2026-11-02"
SMALL = {
    "train.train_tokens": 40_960,
    "overrides": {
        "train.matrix_lr": 0.01,
        "train.lr": 0.015,
        "evaluate.num_pairs": 0,
        "evaluate.sample_tokens": 1,
        "evaluate.stride": 256,
    },
}
PATIENCE_S = 900


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
def airflow(checkout: Checkout, first_run: Ran) -> Iterator[Checkout]:
    """A running Airflow with the lifecycle's model in service."""
    (bento,) = checkout.root.glob("var/store/package/*/records")
    for command in (
        ["python", "-m", "tasks", "promote", str(bento.parent), "--partition", LEARNED],
        ["airflow", "dags", "reserialize"],
    ):
        done = checkout.run("bin/with-env", *command)
        assert done.code == 0, done.output
    up = checkout.run("bin/airflow-up")
    try:
        assert up.code == 0, up.output
        yield checkout
    finally:
        checkout.run("bin/airflow-down")


@pytest.fixture(scope="module")
def scheduled(airflow: Checkout) -> str:
    """State of the run that Airflow starts by itself for yesterday once the DAG is unpaused; nothing has come then."""
    incoming, aside = airflow.root / "samples/nightly", airflow.root / "var/nightly"
    incoming.rename(aside)
    try:
        done = airflow.run("bin/with-env", "airflow", "dags", "unpause", "nightly", "--yes")
        assert done.code == 0, done.output
        (state,) = wait_for(airflow, 1).values()
        return state
    finally:
        aside.rename(incoming)


@pytest.fixture(scope="module")
def nights(airflow: Checkout, scheduled: str) -> Nights:
    """The backfill, one date after the other."""
    between = ["--from-date", NIGHTS[0], "--to-date", f"{NIGHTS[-1]}T23:00:00", "--max-active-runs", "1"]
    made = airflow.run(
        *["bin/with-env", "airflow", "backfill", "create", "--dag-id", "nightly", *between],
        *["--dag-run-conf", json.dumps(SMALL)],
    )
    assert made.code == 0, made.output
    states = wait_for(airflow, len(NIGHTS) + 1)
    return Nights(airflow, {night: states[night] for night in NIGHTS}, records_by_night(airflow))


def wait_for(checkout: Checkout, num_runs: int) -> dict[str, str]:
    """State of each date's run, once so many have begun and all have ended."""
    until = time.monotonic() + PATIENCE_S
    while True:
        states = states_of(checkout)
        if len(states) == num_runs and not {"queued", "running"} & set(states.values()):
            return states
        assert time.monotonic() < until, states
        time.sleep(1)


def states_of(checkout: Checkout) -> dict[str, str]:
    with closing(sqlite3.connect(checkout.root / "var/airflow/airflow.db")) as database:
        rows = database.execute("SELECT partition_key, state FROM dag_run WHERE dag_id = 'nightly'").fetchall()
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


def test_a_night_that_brought_nothing_is_skipped_and_no_failure(airflow: Checkout, scheduled: str) -> None:
    assert scheduled == "success"
    with closing(sqlite3.connect(airflow.root / "var/airflow/airflow.db")) as database:
        states = dict(
            database.execute(
                "SELECT task_id, task_instance.state FROM task_instance JOIN dag_run USING (dag_id, run_id) "
                "WHERE dag_id = 'nightly' AND run_type = 'scheduled'"
            ).fetchall()
        )
    assert states.pop("close") == "success"
    assert set(states.values()) == {"skipped"}


def test_every_date_has_one_run_that_ended_well(nights: Nights) -> None:
    assert nights.states == dict.fromkeys(NIGHTS, "success")
    assert sorted(nights.records) == NIGHTS


@pytest.mark.parametrize("night", NIGHTS)
def test_a_run_reads_the_partition_of_its_date_and_nothing_newer(nights: Nights, night: str) -> None:
    files = nights.records[night]["ingest"]["identity"]["fingerprint"]
    assert {name.partition("/")[0] for some in files.values() for name, _, _ in some} == {night}


@pytest.mark.parametrize("night", NIGHTS[:2])
def test_nothing_older_than_the_champion_is_deployed(nights: Nights, night: str) -> None:
    decision = nights.decision(night)
    assert not decision["kept"]
    assert f"its partition {night} is not newer than the champion's {LEARNED}" in decision["reason"]
    assert decision["champion"] == "models:/headrace-lm/1"


def test_the_newer_night_made_the_champion_better_and_takes_its_place(nights: Nights) -> None:
    decision = nights.decision(NIGHTS[2])
    assert decision["kept"], decision["reason"]
    assert decision["vs_champion"] < 1
    assert decision["partition"] == NIGHTS[2]
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
    assert f"Kept better than version 1: {nights.decision(NIGHTS[2])['vs_champion']:.4f}" in said
    assert "documents that were there before" in said
