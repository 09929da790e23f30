"""Toy stages, and a store of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tasks
from tasks.core import drift, stage
from tasks.core.store import Store, open_store

TOY = Path(__file__).parent / "toy"


@pytest.fixture(autouse=True)
def toy_stages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the folders below ``toy`` stages, as if they lay in ``tasks/``."""
    monkeypatch.setattr(tasks, "__path__", [*tasks.__path__, str(TOY)])
    yield
    stage.config_type_of.cache_clear()
    stage.signature_of.cache_clear()
    drift._read.cache_clear()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return open_store(str(tmp_path / "store"))


@pytest.fixture
def toy_pipeline() -> Path:
    """YAML of the toy pipeline."""
    return TOY / "toy.yaml"
