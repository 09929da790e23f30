"""Random faults at random moments: whatever is killed, filled up or started twice, the next attempt succeeds.

After each trial: no reader saw a partial artifact, no process is left after the grace period and five seconds, the next
attempt makes what an undisturbed one makes, and MLflow has exactly one run of the stage, which finished.

The long run, in which trial *n* is the same each time:
``HEADRACE_FAULT_TRIALS=300 bin/with-env python -m pytest tests/faults``.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tasks.core import mlflow_runs, tracking_process
from tests.faults.world import GRACE_S, ROOT, Reader, World, copy_database

NUM_TRIALS = int(os.environ.get("HEADRACE_FAULT_TRIALS", "10"))
LONGEST_S = 9.0
"""Faults come up to here after the start; an undisturbed attempt takes 4 to 8 s on an idle machine."""
Fault = Callable[[World, random.Random], None]


def kill(naming: str) -> Fault:
    """SIGKILL for the process of the attempt whose command line holds ``naming``, at any moment of it."""

    def fault(world: World, draw: random.Random) -> None:
        attempt, moment = world.attempt(), time.monotonic() + draw.uniform(0, LONGEST_S)
        while time.monotonic() < moment and not attempt.ended():
            time.sleep(0.02)
        world.kill(naming)
        if naming == "tasks.core.tracking_process":
            assert attempt.wait() == 0
        attempt.wait()

    return fault


def kill_again_and_again(world: World, draw: random.Random) -> None:
    """Three attempts in a row, each killed at some moment."""
    for _ in range(3):
        kill("-m tasks run")(world, draw)
        world.wait_for_silence()


def clear(world: World, draw: random.Random) -> None:
    """What clearing a task or marking it failed does: SIGTERM, and SIGKILL five seconds later."""
    attempt = world.attempt()
    time.sleep(draw.uniform(0, LONGEST_S))
    attempt.process.terminate()
    try:
        attempt.wait(5)
    except subprocess.TimeoutExpired:
        attempt.process.kill()
    attempt.wait()


def two_at_once(world: World, draw: random.Random) -> None:
    """The same task twice, a moment apart: both succeed, with one artifact."""
    first = world.attempt()
    time.sleep(draw.choice([0, 0, draw.uniform(0, LONGEST_S)]))
    second = world.attempt()
    assert [first.wait(), second.wait()] == [0, 0]
    assert len({artifact.record.content_digest for artifact in world.artifacts()}) == 1


def full_disk(world: World, draw: random.Random) -> None:
    """A disk that is full before the artifact is whole; later there is room."""
    store = world.folder / "store"
    store.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={draw.choice([8, 16, 32])}k", "tmpfs", str(store)], check=True)
    try:
        assert world.attempt().wait() == 4
        assert world.artifacts() == []
    finally:
        world.wait_for_silence()
        subprocess.run(["umount", str(store)], check=True)


def tracker_away(world: World, _draw: random.Random) -> None:
    """Nobody listens where MLflow should be: the stage succeeds, and its run is written later."""
    there = world.tracking_uri
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        world.tracking_uri = f"http://127.0.0.1:{closed.getsockname()[1]}"
        assert world.attempt().wait() == 0
    world.tracking_uri = there


def collect_meanwhile(world: World, _draw: random.Random) -> None:
    """Garbage collection over and over while the stage runs: it takes nothing that is being made."""
    attempt = world.attempt()
    while not attempt.ended():
        command = [sys.executable, "-m", "tasks", "gc", "--no-registry"]
        subprocess.run(command, cwd=ROOT, env=world.environment(), check=True, stdout=subprocess.DEVNULL)
    assert attempt.wait() == 0


FAULTS: dict[str, Fault] = {
    "kill the stage": kill("-m tasks run"),
    "kill the reaper": kill("reaper.py"),
    "kill the task's process": kill("LocalJob"),
    "kill the tracking process": kill("tasks.core.tracking_process"),
    "kill three attempts": kill_again_and_again,
    "clear the task": clear,
    "two attempts at once": two_at_once,
    "fill the disk": full_disk,
    "MLflow is away": tracker_away,
    "collect garbage": collect_meanwhile,
}
STAGES = ("ingest", "redact")


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A migrated tracking database, and an undisturbed run of each stage to compare with."""
    folder = tmp_path_factory.mktemp("undisturbed")
    rows = [
        {"text": f"Report {number}: write to person{number}@example.com, 在{number}号之前。"} for number in range(400)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    config = {"sources": [{"name": "rows", "path": str(folder / "rows.jsonl"), "format": "jsonl"}]}
    mlflow_database(folder)
    ingest = World(folder, "ingest", config, {})
    assert ingest.attempt().wait() == 0
    redact = World(folder, "redact", {}, {"documents": ingest.artifacts()[0].uri})
    assert redact.attempt().wait() == 0
    return {"ingest": ingest, "redact": redact}


def mlflow_database(folder):
    """Migrated once; see :func:`copy_database`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        mlflow_runs.client().search_experiments()
    (folder / "empty.db").write_bytes((folder / "mlflow.db").read_bytes())


@pytest.mark.parametrize("number", range(NUM_TRIALS))
def test_after_any_fault_the_next_attempt_succeeds(number, template, tmp_path, monkeypatch):
    draw = random.Random(number)
    name = list(FAULTS)[number % len(FAULTS)]
    undisturbed = template[draw.choice(STAGES)]
    copy_database(undisturbed.folder / "empty.db", tmp_path)
    world = World(tmp_path, undisturbed.stage, undisturbed.config, undisturbed.inputs)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", world.tracking_uri)
    monkeypatch.setenv("HEADRACE_SPOOL", str(tmp_path / "spool"))
    world.parent = mlflow_runs.open_parent("faults", world.token)["mlflow_run_id"]
    reader = Reader(world)
    reader.start()
    FAULTS[name](world, draw)
    assert world.wait_for_silence() < GRACE_S + 5, f"{name}: processes are left"
    assert world.attempt().wait() == 0, (tmp_path / "attempts.log").read_text()
    assert world.wait_for_silence() < GRACE_S + 5
    assert reader.stop() == []
    (made,) = world.artifacts()
    assert made.record.content_digest == undisturbed.artifacts()[0].record.content_digest
    close(world)
    assert world.stage_runs() == ["FINISHED"], name


def close(world):
    """What the next pin does, which writes what was kept back, and what the DAG's last task does."""
    tracking_process.replay()
    outcome = json.loads(world.outcome.read_text("utf-8"))
    run = mlflow_runs.RunContext(pipeline="faults", run_id=world.token, mlflow_run_id=world.parent)
    mlflow_runs.close(run, "FINISHED", [outcome] if outcome["cached"] else [])
