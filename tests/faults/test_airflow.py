"""Random faults at random moments of a run of a really running Airflow: a retry or a clear brings it to its end.

After each trial: no process of the killed task is left after the grace period and five seconds, nor any of the run
after its end; no reader saw a partial artifact; the artifacts are the undisturbed run's; MLflow has exactly one run of
the pipeline and one of each stage, and they finished.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import pytest

from tasks.core.store import open_store
from tests.browser.conftest import wait_until
from tests.dags.conftest import ROOT, Checkout, prepared  # noqa: F401 (a fixture)
from tests.faults.airflow_server import STAGES, AirflowServer, parent_of
from tests.faults.reader import Reader, artifacts
from tests.faults.shares import numbers
from tests.faults.world import GRACE_S

PATIENCE_S = 300
NOTICED_S = 5
"""Airflow's task hears of a clear or a mark with its next heartbeat."""
ENDED = ("success", "failed")


@dataclass
class Run:
    """One run of the pipeline, to be disturbed."""

    server: AirflowServer
    name: str
    draw: random.Random
    seconds: float

    def ended(self) -> bool:
        return self.server.state(self.name) in ENDED

    def running_at_some_moment(self, found: Callable[[], list]) -> list:
        """What is found at a random moment of the run, or later if there is nothing then; nothing if the run ends."""
        moment = time.monotonic() + self.draw.uniform(0, self.seconds)
        while not self.ended():
            if time.monotonic() >= moment and (there := found()):
                return there
            time.sleep(0.2)
        return []

    def running_tasks(self) -> list[str]:
        return self.server.tasks(self.name, "running")


Fault = Callable[[Run], None]


def clear(run: Run) -> None:
    if tasks := run.running_at_some_moment(run.running_tasks):
        run.server.clear(run.name, tasks)


def mark_failed(run: Run) -> None:
    for task in run.running_at_some_moment(run.running_tasks):
        run.server.mark_failed(run.name, task)


def kill_task(run: Run, *, supervisor: bool) -> None:
    """SIGKILL for the process that runs the task, or for the one that watches over it."""
    for runner in run.running_at_some_moment(run.server.runners):
        with suppress(OSError):
            os.kill(parent_of(runner) if supervisor else runner, signal.SIGKILL)


def kill_scheduler(run: Run) -> None:
    """And bring it back as a person would."""
    run.running_at_some_moment(lambda: [run.name])
    run.server.kill_scheduler()
    run.server.up()


FAULTS: dict[str, Fault] = {
    "clear": clear,
    "kill the task's process": partial(kill_task, supervisor=False),
    "kill the scheduler": kill_scheduler,
    "kill the task's supervisor": partial(kill_task, supervisor=True),
    "mark failed": mark_failed,
}


@pytest.fixture(scope="module")
def server(prepared: Checkout) -> Iterator[AirflowServer]:  # noqa: F811
    checkout = prepared.copy(prepared.root.parent / "faults")
    (checkout.root / ".venv").symlink_to(ROOT / ".venv")
    quick = checkout.root / "dags/song.py"
    quick.write_text(
        "from datetime import timedelta\n"
        + quick.read_text().replace("@dag(", "@dag(default_args={'retry_delay': timedelta(seconds=1)}, ")
    )
    made = AirflowServer(checkout.root)
    made.configure()
    try:
        made.up()
        wait_until(made.has_dag, lambda: "no DAG", PATIENCE_S)
        yield made
    finally:
        made.down()


@pytest.fixture(scope="module")
def undisturbed(server: AirflowServer) -> tuple[dict[str, str], float]:
    """Content digests by stage, and how long a run takes."""
    began = time.monotonic()
    server.trigger("undisturbed")
    bring_to_success(server, "undisturbed")
    return digests(server), time.monotonic() - began


def digests(server: AirflowServer) -> dict[str, str]:
    """Of the only artifact of each stage."""
    store = open_store(str(server.root / "var/store"))
    found = {stage: artifacts(store, stage) for stage in STAGES}
    return {stage: only.record.content_digest for stage, (only,) in found.items()}


def bring_to_success(server: AirflowServer, run: str) -> None:
    """Wait, and clear what failed, once."""
    for _ in range(2):
        wait_until(lambda: server.state(run) in ENDED, lambda: server.state(run), PATIENCE_S)
        if failed := server.tasks(run, "failed", "upstream_failed"):
            server.clear(run, failed)
    assert server.state(run) == "success"


def left_after(pids: list[int], server: AirflowServer, limit_s: float) -> list[int]:
    """Which of the processes there still are after a time."""
    until = time.monotonic() + limit_s
    while (left := sorted(set(pids) & set(server.processes()))) and time.monotonic() < until:
        time.sleep(0.2)
    return left


@pytest.mark.parametrize("number", numbers(usual=2, share=0.05))
def test_after_any_fault_a_retry_or_a_clear_brings_the_run_to_its_end(number, server, undisturbed):
    expected, seconds = undisturbed
    shutil.rmtree(server.root / "var/store")
    reader = Reader(open_store(str(server.root / "var/store")), *STAGES)
    reader.start()
    name = list(FAULTS)[number % len(FAULTS)]
    run = Run(server, f"trial-{number}", random.Random(number), seconds)
    server.trigger(run.name)
    FAULTS[name](run)
    if name != "kill the scheduler":  # which lets go of no task
        assert left_after(server.processes(), server, NOTICED_S + GRACE_S + 5) == []
    bring_to_success(server, run.name)
    assert left_after(server.processes(), server, GRACE_S + 5) == []
    assert reader.stop() == []
    assert digests(server) == expected
    assert server.mlflow_runs(run.name) == {stage: ["FINISHED"] for stage in ("", *STAGES)}
