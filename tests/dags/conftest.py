"""A checkout of its own for Airflow to run in: this repository's core and plugins with a toy pipeline."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SONG = Path(__file__).parent / "song"


@dataclass(frozen=True)
class Checkout:
    """A tree that holds what a run needs, and the way to run Airflow in it."""

    root: Path

    @property
    def environment(self) -> dict[str, str]:
        """As ``bin/with-env`` sets it. Compiled modules are kept: Airflow and MLflow have thousands."""
        dropped = ("AIRFLOW", "HEADRACE", "MLFLOW_TRACKING_URI", "PYTHONDONTWRITEBYTECODE", "COV_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        return kept | {
            "AIRFLOW_HOME": str(self.root / "var/airflow"),
            "AIRFLOW_CONFIG": str(self.root / "airflow.cfg"),
            "PYTHONPATH": str(self.root),
            "MLFLOW_TRACKING_URI": f"sqlite:///{self.root}/var/mlflow/mlflow.db",
        }

    def airflow(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=500,
            check=False,
        )

    def dags_test(self, dag: str, **conf: Any) -> subprocess.CompletedProcess[str]:
        """``airflow dags test``, as ``make run`` does it."""
        return self.airflow("dags", "test", dag, "-c", json.dumps(conf))

    def copy(self, root: Path) -> Checkout:
        shutil.copytree(self.root, root)
        return Checkout(root)

    def xcoms(self, key: str) -> dict[str, Any]:
        """What each task left under a key, by task."""
        with sqlite3.connect(self.root / "var/airflow/airflow.db") as database:
            rows = database.execute("SELECT task_id, value FROM xcom WHERE key = ?", [key]).fetchall()
        return {task: json.loads(value) for task, value in rows}


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The tree with Airflow's database made; tests take copies."""
    root = tmp_path_factory.mktemp("checkout") / "prepared"
    shutil.copytree(SONG / "dags", root / "dags")
    shutil.copytree(SONG / "tasks", root / "tasks")
    for name in ("plugins", "bin", "tasks/core"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("airflow.cfg", *(f"tasks/{path.name}" for path in (ROOT / "tasks").glob("*.py"))):
        shutil.copy(ROOT / name, root / name)
    (root / "var/airflow").mkdir(parents=True)
    checkout = Checkout(root)
    made = checkout.airflow("db", "migrate")
    assert made.returncode == 0, made.stdout
    return checkout


@pytest.fixture(scope="session")
def stubbed(prepared: Checkout) -> Checkout:
    """A copy whose ``python -m tasks`` only writes down what it is asked."""
    checkout = prepared.copy(prepared.root.parent / "stubbed")
    shutil.copy(SONG / "stub/__main__.py", checkout.root / "tasks/__main__.py")
    return checkout
