"""A tracking database that is migrated once for all trials: that takes as long as a trial."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tasks.core import mlflow_runs
from tests.faults.world import World


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mlflow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/empty.db")
        mlflow_runs.client().search_experiments()
    return folder / "empty.db"


@pytest.fixture(scope="session")
def undisturbed(empty_database: Path):
    """Runs a stage with nobody disturbing it, and times it."""

    def run(folder: Path, stage: str, config: dict, inputs: dict[str, str]) -> World:
        for name in ("empty.db", "mlflow.db"):
            shutil.copyfile(empty_database, folder / name)
        world, began = World(folder, stage, config, inputs), time.monotonic()
        assert world.attempt().wait() == 0, (folder / "attempts.log").read_text()
        world.seconds = time.monotonic() - began
        return world

    return run
