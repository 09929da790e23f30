"""A small world to break: a store, a tracking database, sources, and attempts that run as Airflow's tasks do."""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.core.artifact import Artifact
from tasks.core.store import Store, open_store
from tests.browser.conftest import needed
from tests.faults.reader import artifacts

ROOT = Path(__file__).parents[2]
MARK = "HEADRACE_TRIAL"
GRACE_S = 6
OPERATOR = """
import configparser, os, signal, sys, types
settings = configparser.ConfigParser()
settings["headrace"] = {"grace_s": os.environ["AIRFLOW__HEADRACE__GRACE_S"]}
for name in ("airflow", "airflow.sdk", "airflow.sdk.configuration"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["airflow.sdk.configuration"].conf = settings
from plugins.operators.backends import LocalJob
job = LocalJob(["run", sys.argv[1], "--spec", "-"], sys.stdin.read(), {})
signal.signal(signal.SIGTERM, lambda *_: job.stop())
for line in job.lines():
    print(line, flush=True)
sys.exit(job.exit_code())
"""
"""What Airflow's task does, in a process of its own: starts the stage under the reaper, lets go of it at SIGTERM.
Of Airflow it needs one setting; importing all of it takes two seconds, and :mod:`tests.faults.test_airflow` does."""


@dataclass(frozen=True)
class Victim:
    """Processes that are known by their command line."""

    naming: str
    but: str = "\0"
    """What their command line does not hold."""

    def is_run_by(self, command: str) -> bool:
        return self.naming in command and self.but not in command


TASK = Victim("LocalJob")
REAPER = Victim("reaper.py")
STAGE = Victim("-m tasks run", but="reaper.py")
TRACKING = Victim("tasks.core.tracking_process")
TORCHRUN = Victim("torch.distributed.run")
RANK = Victim("tasks.training.process", but="torch.distributed.run")
ANYBODY = Victim("")


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
    seconds: float = 9.0
    """How long an undisturbed attempt takes; faults come up to then."""
    root: str = ""
    """The store's, where it is not a folder of this world."""
    change: str = ""
    """Python that every program of the trial runs first, to have what cannot be had from outside."""
    clock: str = ""
    """How wrong the clock is for what is started from now on, as libfaketime takes it: ``-1h``."""
    codes: list[int] = field(default_factory=list)
    """How the attempts ended that were waited for."""

    def __post_init__(self) -> None:
        self.tracking_uri = self.tracking_uri or f"sqlite:///{self.folder}/mlflow.db"
        self.root = self.root or str(self.folder / "store")

    @property
    def store(self) -> Store:
        return open_store(self.root)

    @property
    def outcome(self) -> Path:
        """Where the last attempt that succeeded left its outcome."""
        return self.folder / "outcome.json"

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            MARK: self.token,
            "PYTHONPATH": str(ROOT),
            "HEADRACE_STORE": self.root,
            "HEADRACE_CACHE": str(self.folder / "cache"),
            "HEADRACE_SCRATCH": str(self.folder / "scratch"),
            "HEADRACE_SPOOL": str(self.folder / "spool"),
            "MLFLOW_TRACKING_URI": self.tracking_uri,
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
            "AIRFLOW__HEADRACE__GRACE_S": str(GRACE_S),
            **(wrong_clock(self.clock) if self.clock else {}),
            **(changed(self.folder, self.change) if self.change else {}),
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

    def processes(self, victim: Victim = ANYBODY) -> list[int]:
        """Live processes of this trial, whatever their session."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if not entry.name.isdigit() or f"{MARK}={self.token}".encode() not in (entry / "environ").read_bytes():
                    continue
                if victim.is_run_by((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()):
                    found.append(int(entry.name))
            except OSError:  # it ended meanwhile
                continue
        return found

    def kill(self, victim: Victim, draw: random.Random) -> None:
        """SIGKILL to one such process of the trial, if there is any."""
        if found := self.processes(victim):
            with suppress(ProcessLookupError):
                os.kill(draw.choice(sorted(found)), signal.SIGKILL)

    def wait_for_silence(self) -> float:
        """Seconds until no process of the trial is left; at most twice what the reaper promises."""
        began = time.monotonic()
        while self.processes() and time.monotonic() - began < 2 * (GRACE_S + 5):
            time.sleep(0.1)
        return time.monotonic() - began

    def artifacts(self) -> list[Artifact]:
        return artifacts(self.store, self.stage)

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
        code = self.process.wait(timeout_s)
        self.world.codes.append(code)
        return code


def wrong_clock(offset: str) -> dict[str, str]:
    """Variables under which programs are told a wrong time of day. What files say and what measures durations stays
    right, as when somebody sets the clock of one machine of many."""
    library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    needed(library, "libfaketime (apt-get install faketime)")
    return {"LD_PRELOAD": str(library), "FAKETIME": offset, "DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}


def changed(folder: Path, change: str) -> dict[str, str]:
    """Variables under which every Python program runs ``change`` when it starts."""
    place = folder / "change"
    place.mkdir(exist_ok=True)
    (place / "sitecustomize.py").write_text(change)
    return {"PYTHONPATH": f"{place}:{ROOT}"}


def copy_database(template: Path, folder: Path) -> None:
    """A migrated, empty tracking database: making one takes as long as a trial."""
    shutil.copyfile(template, folder / "mlflow.db")
