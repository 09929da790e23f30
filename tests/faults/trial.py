"""One trial of one stage, and what has to hold after it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tasks.core import mlflow_runs, tracking_process
from tasks.core.artifact import Artifact
from tests.faults.faults import Fault
from tests.faults.reader import Reader
from tests.faults.world import GRACE_S, World, copy_database


def next_attempt_after(
    name: str,
    fault: Fault,
    undisturbed: World,
    folder: Path,
    draw: random.Random,
    patch: pytest.MonkeyPatch,
    root: str = "",
) -> Artifact:
    """Let a fault happen to a stage in a world of its own and run it again; gives what was made in the end."""
    world = new_world(undisturbed, folder, patch, root)
    reader = Reader(world.store, world.stage)
    reader.start()
    fault(world, draw)
    assert world.wait_for_silence() < GRACE_S + 5, f"{name}: processes are left"
    assert world.attempt().wait() == 0, (folder / "attempts.log").read_text()
    assert world.wait_for_silence() < GRACE_S + 5
    assert reader.stop() == []
    (made,) = world.artifacts()
    assert made.record.content_digest == undisturbed.artifacts()[0].record.content_digest
    close(world)
    assert world.stage_runs() == ["FINISHED"], name
    return made


def new_world(undisturbed: World, folder: Path, patch: pytest.MonkeyPatch, root: str = "") -> World:
    """The same request in an empty store, with an empty tracking database in which pin has opened the run."""
    copy_database(undisturbed.folder / "empty.db", folder)
    world = World(
        folder, undisturbed.stage, undisturbed.config, undisturbed.inputs, seconds=undisturbed.seconds, root=root
    )
    patch.setenv("MLFLOW_TRACKING_URI", world.tracking_uri)
    patch.setenv("HEADRACE_SPOOL", str(folder / "spool"))
    world.parent = mlflow_runs.open_parent("faults", world.token)["mlflow_run_id"]
    return world


def close(world: World) -> None:
    """What the next pin does, which writes what was kept back, and what the DAG's last task does."""
    tracking_process.replay()
    outcome = json.loads(world.outcome.read_text("utf-8"))
    run = mlflow_runs.RunContext(pipeline="faults", run_id=world.token, mlflow_run_id=world.parent)
    mlflow_runs.close(run, "FINISHED", [outcome] if outcome["cached"] else [])
