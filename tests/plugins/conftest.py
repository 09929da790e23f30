"""Airflow reads its configuration when it is imported: give it a home of its own before any test module does."""

import os
import tempfile
from pathlib import Path

import pytest

os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow-"))

SONG = Path(__file__).parents[1] / "dags/song"


@pytest.fixture
def song(monkeypatch):
    """The toy pipeline of ``tests/dags``, its stages known by name."""
    import tasks
    from tasks.core import stage

    monkeypatch.setattr(tasks, "__path__", [*tasks.__path__, str(SONG / "tasks")])
    yield SONG / "dags/song.py"
    stage.config_type_of.cache_clear()
    stage.signature_of.cache_clear()


@pytest.fixture
def tasks_command(tmp_path, monkeypatch):
    """Puts a Python text in the place of ``python -m tasks``; gives the folder where it runs."""
    from plugins.operators import backends

    def put(text):
        (tmp_path / "tasks").mkdir()
        (tmp_path / "tasks/__init__.py").touch()
        (tmp_path / "tasks/__main__.py").write_text(text)
        monkeypatch.setattr(backends, "ROOT", tmp_path)
        return tmp_path

    return put
