"""A running Airflow of our own, with what an operator does to it, and what can be done to it from outside."""

from __future__ import annotations

import configparser
import json
import os
import re
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.faults.world import GRACE_S

SETTINGS = {
    "core": {"parallelism": "2", "dags_are_paused_at_creation": "False"},
    "scheduler": {
        "task_instance_heartbeat_timeout": "15",
        "task_instance_heartbeat_timeout_detection_interval": "2",
        "scheduler_health_check_threshold": "10",
        "orphaned_tasks_check_interval": "5",
    },
    "headrace": {"grace_s": str(GRACE_S)},
}
"""A dead task is noticed within seconds; by default it takes Airflow five minutes."""
STAGES = ("hum", "echo")
OURS = re.compile(r"-m tasks |tasks\.core\.tracking_process")
"""In the command lines of a reaper, a stage and its tracking process."""


@dataclass
class AirflowServer:
    """``bin/airflow-up`` in a checkout with the toy pipeline."""

    root: Path
    http: httpx.Client = field(default_factory=lambda: httpx.Client(trust_env=False, timeout=30))

    def configure(self) -> None:
        cfg = configparser.ConfigParser(interpolation=None)
        cfg.read(self.root / "airflow.cfg")
        cfg.read_dict(SETTINGS)
        with (self.root / "airflow.cfg").open("w") as file:
            cfg.write(file)

    def up(self) -> None:
        """Start what is missing, and log in."""
        said = self.command("bin/airflow-up")
        (url,) = re.findall(r"^Airflow +(http://127\.0\.0\.1:\d+) ", said, re.MULTILINE)
        self.http.base_url = httpx.URL(url)
        password = json.loads((self.root / "var/secrets/airflow-passwords.json").read_text())["admin"]
        token = self.http.post("/auth/token", json={"username": "admin", "password": password}).json()["access_token"]
        self.http.headers["Authorization"] = f"Bearer {token}"

    def down(self) -> None:
        self.command("bin/airflow-down")

    def command(self, name: str) -> str:
        ours = ("AIRFLOW", "HEADRACE", "MLFLOW", "PYTHONPATH")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        environment = kept | {"HEADRACE_STOP_S": "10"}
        done = subprocess.run(
            [self.root / name], cwd=self.root, env=environment, capture_output=True, text=True, timeout=400, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        answer: dict[str, Any] = (
            self.http.request(method, f"/api/v2/dags/song{path}", json=body).raise_for_status().json()
        )
        return answer

    def has_dag(self) -> bool:
        return self.http.get("/api/v2/dags/song").status_code == 200

    def trigger(self, run: str) -> None:
        self.ask("POST", "/dagRuns", {"dag_run_id": run, "logical_date": None})

    def state(self, run: str) -> str:
        return str(self.ask("GET", f"/dagRuns/{run}")["state"])

    def tasks(self, run: str, *states: str) -> list[str]:
        """The tasks of a run that are in one of these states."""
        tasks = self.ask("GET", f"/dagRuns/{run}/taskInstances")["task_instances"]
        return [one["task_id"] for one in tasks if one["state"] in states]

    def clear(self, run: str, tasks: list[str]) -> None:
        """Clear tasks and all after them, as the UI's button does."""
        what = {"dag_run_id": run, "task_ids": tasks, "include_downstream": True}
        self.ask("POST", "/clearTaskInstances", {**what, "dry_run": False, "only_failed": False})

    def mark_failed(self, run: str, task: str) -> None:
        self.ask("PATCH", f"/dagRuns/{run}/taskInstances/{task}", {"new_state": "failed"})

    def processes(self) -> list[int]:
        """All of stages, whatever their session."""
        return [pid for pid, command in self.everybody() if OURS.search(command)]

    def runners(self) -> list[int]:
        """The processes of Airflow's tasks: each is the parent of a reaper."""
        return [parent_of(pid) for pid, command in self.everybody() if "reaper.py" in command]

    def everybody(self) -> Iterator[tuple[int, str]]:
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (entry / "cwd").readlink().is_relative_to(self.root):
                    yield int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()

    def kill_scheduler(self) -> None:
        os.kill(int((self.root / "var/run/airflow-scheduler.pid").read_text().split()[0]), signal.SIGKILL)

    def mlflow_runs(self, run: str) -> dict[str, list[str]]:
        """Status of each run in MLflow by stage; the pipeline's own is that of no stage."""
        found: dict[str, list[str]] = {}
        with closing(sqlite3.connect(self.root / "var/mlflow/mlflow.db")) as database:
            for stage, status in database.execute(
                "SELECT s.value, r.status FROM runs r JOIN tags s USING (run_uuid) JOIN tags t USING (run_uuid) "
                "WHERE s.key = 'headrace.stage' AND (t.key, t.value) = ('headrace.run', ?)",
                [run],
            ):
                found.setdefault(stage, []).append(status)
        return found


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
