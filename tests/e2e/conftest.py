"""A checkout of its own with the shipped sample, in which the real lifecycle runs once per session."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SMALL = {"train.train_tokens": 163_840, "overrides": {"evaluate.num_pairs": 40, "evaluate.sample_tokens": 24}}
"""The dial and two knobs that make the lifecycle a matter of a few minutes; everything else is as shipped."""


@dataclass(frozen=True)
class Ran:
    """One command: how it ended, what it said, and the CPU-seconds it and its children used."""

    code: int
    output: str
    cpu_s: float


@dataclass(frozen=True)
class Checkout:
    """A copy of this repository's files with state of its own."""

    root: Path

    def run(self, *command: str, store: str = "") -> Ran:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            command,
            cwd=self.root,
            env=environment() | ({"HEADRACE_STORE": store} if store else {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1500,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Ran(done.returncode, done.stdout, used)

    def tasks(self, *arguments: str, store: str = "") -> Ran:
        return self.run("bin/with-env", "python", "-m", "tasks", *arguments, store=store)

    def dag(self, store: str = "", **changes: Any) -> Ran:
        conf = {**SMALL, **changes, "overrides": {**SMALL["overrides"], **changes.get("overrides", {})}}
        return self.run("bin/run-dag", "lifecycle", json.dumps(conf), store=store)

    def records(self, stage: str) -> list[dict[str, Any]]:
        """All records of a stage, oldest first."""
        files = self.root.glob(f"var/store/{stage}/*/records/*.json")
        return sorted((json.loads(file.read_text()) for file in files), key=lambda record: record["made"]["at"])


def environment() -> dict[str, str]:
    """Without what this process was told about state; DeepSpeed's extension is shared, since it takes long to build."""
    dropped = ("AIRFLOW", "HEADRACE", "MLFLOW_TRACKING_URI", "BENTOML_HOME", "PYTHONPATH", "HF_HOME", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    extensions = os.environ.get("TORCH_EXTENSIONS_DIR", str(ROOT / "var" / "torch_extensions"))
    return kept | {"TORCH_EXTENSIONS_DIR": extensions}


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A copy of every file git knows or would know, beside the same environment."""
    root = tmp_path_factory.mktemp("lifecycle") / "headrace"
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and (ROOT / name).is_file() and not name.startswith("tests/"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    made = Checkout(root)
    for command in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "all"],
    ):
        assert made.run("git", *command).code == 0
    (root / ".venv").symlink_to(ROOT / ".venv")
    migrated = made.run("bin/with-env", "airflow", "db", "migrate")
    assert migrated.code == 0, migrated.output
    return made


@pytest.fixture(scope="session")
def first_run(checkout: Checkout) -> Ran:
    """The lifecycle from nothing to a served model."""
    ran = checkout.dag()
    assert ran.code == 0, ran.output[-4000:]
    return ran


@pytest.fixture(scope="session")
def second_run(checkout: Checkout, first_run: Ran) -> Ran:
    """The same again, with nothing changed."""
    ran = checkout.dag()
    assert ran.code == 0, ran.output[-4000:]
    return ran
