"""A small world to break: a store, a tracking database, sources, and attempts that run as Airflow's tasks do."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.core.artifact import Artifact, altered, file_digest, newest
from tasks.core.store import Store, open_store

ROOT = Path(__file__).parents[2]
MARK = "HEADRACE_TRIAL"
GRACE_S = 6
OPERATOR = """
import signal, sys
from plugins.operators.backends import LocalJob
job = LocalJob(["run", sys.argv[1], "--spec", "-"], sys.stdin.read(), {})
signal.signal(signal.SIGTERM, lambda *_: job.stop())
for line in job.lines():
    print(line, flush=True)
sys.exit(job.exit_code())
"""
"""What Airflow's task does, in a process of its own: starts the stage under the reaper, lets go of it at SIGTERM."""


@dataclass
class World:
    """Everything one trial touches lies in ``folder``."""

    folder: Path
    stage: str
    config: Mapping[str, Any]
    inputs: Mapping[str, str]
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    tracking_uri: str = ""
    parent: str = ""
    """The pipeline run in MLflow, which pin opens and close ends."""

    def __post_init__(self) -> None:
        self.tracking_uri = self.tracking_uri or f"sqlite:///{self.folder}/mlflow.db"

    @property
    def store(self) -> Store:
        return open_store(str(self.folder / "store"))

    @property
    def outcome(self) -> Path:
        """Where the last attempt that succeeded left its outcome."""
        return self.folder / "outcome.json"

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            MARK: self.token,
            "PYTHONPATH": str(ROOT),
            "HEADRACE_STORE": str(self.folder / "store"),
            "HEADRACE_SPOOL": str(self.folder / "spool"),
            "MLFLOW_TRACKING_URI": self.tracking_uri,
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
            "AIRFLOW__HEADRACE__GRACE_S": str(GRACE_S),
        }

    def attempt(self) -> Attempt:
        """Start the stage as one task of one pipeline run; every attempt is the same task."""
        spec = {
            "stage": self.stage,
            "config": self.config,
            "inputs": self.inputs,
            "run": {"pipeline": "faults", "run_id": self.token, "mlflow_run_id": self.parent},
            "outcome": str(self.outcome),
        }
        log = (self.folder / "attempts.log").open("ab")
        process = subprocess.Popen(
            [sys.executable, "-c", OPERATOR, self.stage],
            cwd=ROOT,
            env=self.environment(),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(spec).encode())
        process.stdin.close()
        return Attempt(self, process)

    def processes(self, naming: str = "") -> list[int]:
        """Live processes of this trial, whatever their session, whose command line holds ``naming``."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if not entry.name.isdigit() or f"{MARK}={self.token}".encode() not in (entry / "environ").read_bytes():
                    continue
                if naming.encode() in (entry / "cmdline").read_bytes().replace(b"\0", b" "):
                    found.append(int(entry.name))
            except OSError:  # it ended meanwhile
                continue
        return found

    def kill(self, naming: str) -> bool:
        """SIGKILL to every process of the trial with ``naming`` in its command line; whether there was one."""
        victims = self.processes(naming)
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return bool(victims)

    def wait_for_silence(self) -> float:
        """Seconds until no process of the trial is left; at most twice what the reaper promises."""
        began = time.monotonic()
        while self.processes() and time.monotonic() - began < 2 * (GRACE_S + 5):
            time.sleep(0.1)
        return time.monotonic() - began

    def artifacts(self) -> list[Artifact]:
        return [found for path in self.store.artifacts(self.stage) if (found := newest(self.store, path))]

    def stage_runs(self) -> list[str]:
        """Status of every run of this stage in the tracking database."""
        with sqlite3.connect(self.folder / "mlflow.db") as database:
            rows = database.execute(
                "SELECT r.status FROM runs r JOIN tags s USING (run_uuid) JOIN tags t USING (run_uuid) "
                "WHERE (s.key, s.value) = ('headrace.stage', ?) AND (t.key, t.value) = ('headrace.run', ?)",
                [self.stage, self.token],
            )
            return [status for (status,) in rows]


@dataclass
class Attempt:
    """One run of the task."""

    world: World
    process: subprocess.Popen[bytes]

    def ended(self) -> bool:
        return self.process.poll() is not None

    def wait(self, timeout_s: float = 120) -> int:
        return self.process.wait(timeout_s)


class Reader(threading.Thread):
    """Reads the store all the time, as a later stage would, and notes every artifact that is not whole."""

    def __init__(self, world: World) -> None:
        super().__init__(daemon=True)
        self.world, self.violations, self.done = world, list[str](), threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.05):
            for artifact in self.world.artifacts():
                self.violations += damage(artifact)

    def stop(self) -> list[str]:
        self.done.set()
        self.join()
        return self.violations


def damage(artifact: Artifact) -> list[str]:
    """What is wrong with a published artifact: files that are gone, cut off or other than the record says."""
    if lost := altered(artifact):
        return lost
    return [
        f"{file.path} has other bytes"
        for file in artifact.record.files
        if file_digest(artifact.path / file.path) != file.sha256
    ]


def copy_database(template: Path, folder: Path) -> None:
    """A migrated, empty tracking database: making one takes as long as a trial."""
    shutil.copyfile(template, folder / "mlflow.db")
