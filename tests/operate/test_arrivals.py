"""A partition that arrives while Airflow really runs: the triggerer notices it and nightly starts for it, once."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import wait_until
from tests.dags.conftest import ROOT, Checkout, prepared  # noqa: F401 (a fixture)
from tests.faults.airflow_server import AirflowServer

PATIENCE_S = 120
SECRET = "s3cr3t-of-the-lake"
LAKE = {"connection_id": "lake", "conn_type": "generic", "login": "AKIALAKE", "password": SECRET}
LAKE |= {"extra": '{"kind": "s3"}'}
NIGHTLY = """
from airflow.sdk import BaseOperator, CronPartitionTimetable, Param, dag


class Nothing(BaseOperator):
    def execute(self, context):
        pass


@dag(
    schedule=CronPartitionTimetable("0 2 1 1 *", timezone="UTC", run_offset=-1, key_format="%Y-%m-%d"),
    catchup=False,
    max_active_runs=1,
    params={"overrides": Param({}, type="object")},
)
def nightly():
    Nothing(task_id="nothing")


nightly()
"""


class Watching:
    """Airflow with the shipped DAG arrivals and a toy in the place of nightly, and the folder that is watched."""

    def __init__(self, root: Path) -> None:
        self.server = AirflowServer(root)
        self.incoming = root / "var/incoming"
        self.incoming.mkdir()
        shutil.copy(ROOT / "dags/arrivals.py", root / "dags/arrivals.py")
        (root / "dags/nightly.py").write_text(NIGHTLY)
        self.server.configure()
        cfg = root / "airflow.cfg"
        changed = cfg.read_text().replace("arrivals_prefix =", f"arrivals_prefix = {self.incoming}")
        changed = changed.replace("source_conn_ids =", "source_conn_ids = lake")
        cfg.write_text(changed.replace("arrivals_every_s = 60", "arrivals_every_s = 5"))

    def up(self) -> None:
        """With a Connection that every look asks for, although this folder needs none."""
        self.server.up()
        self.server.http.post("/api/v2/connections", json=LAKE).raise_for_status()

    def somebody_looked(self) -> bool:
        with closing(sqlite3.connect(self.server.root / "var/airflow/airflow.db")) as database:
            return bool(database.execute("SELECT 1 FROM asset_state_store").fetchall())

    def remembered(self) -> list[str]:
        """What need not be announced any more, by Airflow's own database."""
        with closing(sqlite3.connect(self.server.root / "var/airflow/airflow.db")) as database:
            (value,) = database.execute("SELECT value FROM asset_state_store WHERE key = 'started'").fetchone()
        return list(json.loads(value))

    def arrive(self, *names: str) -> None:
        for name in names:
            (self.incoming / name).mkdir()
            (self.incoming / name / "_SUCCESS").touch()

    def runs(self, dag: str) -> list[dict[str, Any]]:
        answer = self.server.http.get(f"/api/v2/dags/{dag}/dagRuns")
        return answer.json()["dag_runs"] if answer.status_code == 200 else []

    def started(self) -> dict[str, Any]:
        """What the runs of nightly were given, by their names."""
        return {run["dag_run_id"]: run["conf"] for run in self.runs("nightly") if "arrival" in run["dag_run_id"]}

    def wait_for(self, *partitions: str) -> None:
        wanted = {f"arrival__{name}" for name in partitions}
        wait_until(lambda: set(self.started()) >= wanted, lambda: f"{self.runs('arrivals')}", PATIENCE_S)


@pytest.fixture(scope="module")
def watching(prepared: Checkout) -> Iterator[Watching]:  # noqa: F811
    checkout = prepared.copy(prepared.root.parent / "arrivals")
    (checkout.root / ".venv").symlink_to(ROOT / ".venv")
    made = Watching(checkout.root)
    try:
        made.up()
        wait_until(made.somebody_looked, lambda: "nobody looks", PATIENCE_S)
        yield made
    finally:
        made.server.down()


@pytest.fixture(scope="module")
def started(watching: Watching) -> dict[str, Any]:
    """The runs after two partitions arrived at once."""
    watching.arrive("2026-11-02", "2026-11-01")
    (watching.incoming / "2026-11-03").mkdir()
    watching.wait_for("2026-11-01", "2026-11-02")
    return watching.started()


def test_each_partition_has_one_run_of_nightly_that_reads_it(started):
    assert started == {
        f"arrival__{name}": {"overrides": {"ingest.partition": name}} for name in ("2026-11-01", "2026-11-02")
    }


def test_a_partition_without_its_mark_starts_nothing(started):
    assert "arrival__2026-11-03" not in started


def test_what_was_started_is_remembered_and_so_not_announced_again(watching, started):
    wait_until(
        lambda: watching.remembered() == ["2026-11-01", "2026-11-02"],
        lambda: f"{watching.remembered()} {watching.runs('arrivals')}",
        PATIENCE_S,
    )


def test_the_connection_that_a_look_asks_for_is_in_no_log_and_readable_in_no_database(watching, started):
    files = [path for path in watching.server.root.rglob("*") if path.is_file()]
    assert any(path.name == "airflow-triggerer.log" for path in files)
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
