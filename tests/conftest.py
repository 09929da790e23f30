"""What all tests share: no hub, no usage reports, no state outside a temporary folder."""

from __future__ import annotations

import os

import pytest

pytest_plugins = ["tests.servers.fixtures"]

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("BENTOML_DO_NOT_TRACK", "True")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")


@pytest.fixture(scope="session")
def migrated_database(tmp_path_factory):
    """MLflow's database without a run or a model; migrating one takes seconds, copying it none."""
    from tasks.core import mlflow_runs

    path = tmp_path_factory.mktemp("mlflow") / "empty.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{path}")
        mlflow_runs.client().search_experiments()
    return path


@pytest.fixture
def mlflow_database(migrated_database, tmp_path, monkeypatch):
    """An MLflow database of this test's own, which everything it starts writes to."""
    path = tmp_path / "mlflow.db"
    path.write_bytes(migrated_database.read_bytes())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{path}")
    return path
