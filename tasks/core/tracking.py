"""What a stage tells MLflow, by a process of its own.

Importing MLflow takes seconds and its server may hang or be down; neither may slow or stop a stage. So a stage
sends its events as JSON lines to a child process (:mod:`tasks.core.tracking_process`), which alone imports MLflow,
batches, and writes. Its answer is one line with the run's id. When its input ends without a farewell, the stage
died, and the run is closed as ``KILLED``: no ghost stays behind.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import asdict
from functools import cached_property
from types import TracebackType
from typing import Any, Self

from tasks.core.mlflow_runs import RunContext, now_ms, warn
from tasks.core.spool import Spool, new_spool, rising_ms
from tasks.core.store import REPOSITORY

READY_S = 120.0
FAREWELL_S = 60.0


_tracker: ContextVar[Tracker | None] = ContextVar("tracker", default=None)


def current_run_id() -> str:
    """The MLflow run of the stage that runs; empty when it is not tracked. Waits until the run is open."""
    tracker = _tracker.get()
    return tracker.run_id if tracker else ""


class Tracker:
    """A sink that hands everything to the tracking process. Trouble there is told once and stops nothing."""

    def __init__(self, run: RunContext, stage: str, params: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        told = {"run": asdict(run), "stage": stage, "params": params, "tags": tags}
        self._start: dict[str, Any] = {"kind": "start", **told}
        self._process: subprocess.Popen[str] | None = None
        self._spool: Spool | None = None
        self._enabled = bool(run.pipeline)
        self._gone = False

    def __enter__(self) -> Self:
        if not self._enabled:
            return self
        try:
            self._start["at_ms"] = rising_ms()
            self._spool = new_spool(str(self._start["stage"]))
        except OSError as trouble:
            warn(f"not tracked: nothing can be kept for it: {trouble}")
            return self
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tasks.core.tracking_process", str(self._spool.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            start_new_session=True,
            pass_fds=[self._spool.descriptor],
        )
        self._send(self._start)
        self._token = _tracker.set(self)
        return self

    @property
    def run_id(self) -> str:
        """Id of the stage's run, empty when it is not tracked; waits until the tracking process has opened it."""
        return self._answer.get("run_id", "")

    @property
    def url(self) -> str:
        """Where a browser finds the run."""
        return self._answer.get("url", "")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None or self._spool is None:
            return
        _tracker.reset(self._token)
        self._send({"kind": "end", "status": "FAILED" if kind else "FINISHED"})
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(FAREWELL_S)
        except (OSError, subprocess.TimeoutExpired) as trouble:
            self._process.kill()
            self._process.wait()
            warn(f"the tracker took too long to finish and was stopped: {trouble}")
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._spool.close()

    @cached_property
    def _answer(self) -> dict[str, str]:
        """The first line of the tracking process. A tracker that hangs costs ``READY_S`` once; the stage goes on."""
        if self._process is None or self._process.stdout is None:
            return {}
        replies = self._process.stdout
        lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=lambda: lines.put(replies.readline()), daemon=True).start()
        try:
            answer: dict[str, str] = json.loads(lines.get(timeout=READY_S) or "{}")
        except (queue.Empty, json.JSONDecodeError):
            answer = {}
        if "run_id" not in answer:
            warn(f"not tracked now: {answer.get('error', 'the tracking process gave no answer')}")
        return answer

    def _send(self, message: Mapping[str, Any]) -> None:
        if self._process is None or self._process.stdin is None or self._spool is None:
            return
        try:
            self._spool.keep(message)
            if not self._gone:
                self._process.stdin.write(json.dumps(message, ensure_ascii=False) + "\n")
                self._process.stdin.flush()
        except BrokenPipeError:
            warn(f"the tracking process is gone; what it should write is kept for later in {self._spool.path}")
            self._gone = True
        except OSError as trouble:
            warn(f"cannot keep what MLflow should be told: {trouble}")

    def metric(self, name: str, value: float, step: int | None) -> None:
        self._send({"kind": "metric", "name": name, "value": value, "step": step, "at_ms": now_ms()})

    def progress(self, done: float, total: float | None, unit: str) -> None: ...

    def drop(self, reason: str, count: int) -> None:
        self._send({"kind": "metric", "name": f"dropped/{reason}", "value": count, "step": None, "at_ms": now_ms()})

    def sample(self, name: str, text: str) -> None:
        self._send({"kind": "sample", "name": name, "text": text})

    def note(self, message: str) -> None: ...

    def result(self, result: Mapping[str, Any]) -> None:
        """The stage's result: its numbers become metrics, the whole an artifact."""
        self._send({"kind": "result", "result": result})
