"""What an undisturbed run makes, to compare every trial with."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tests.faults.world import World


@pytest.fixture(scope="session")
def undisturbed(migrated_database: Path):
    """Runs a stage with nobody disturbing it, and times it."""

    def run(folder: Path, stage: str, config: dict, inputs: dict[str, str]) -> World:
        for name in ("empty.db", "mlflow.db"):
            shutil.copyfile(migrated_database, folder / name)
        world, began = World(folder, stage, config, inputs), time.monotonic()
        assert world.attempt().wait() == 0, (folder / "attempts.log").read_text()
        world.seconds = time.monotonic() - began
        return world

    return run
