"""MLflow: one parent run per DAG run, one child per stage, written by a process of its own.

Importing MLflow takes seconds and its server may hang or be down; neither may slow or stop a stage. So a stage
sends its events as JSON lines to a child process, ``python -m tasks.core.tracking``, which alone imports MLflow,
batches, and writes. Its answer is one line with the run's id. When its input ends without a farewell, the stage
died, and the run is closed as ``KILLED``: no ghost stays behind.

A retry finds the run of its pipeline run and stage by tags and continues it.
"""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from tasks.core.errors import ServiceError
from tasks.core.store import REPOSITORY, VAR

if TYPE_CHECKING:
    from mlflow.entities import Metric, Run
    from mlflow.tracking import MlflowClient

MAX_PARAM_CHARS = 500
"""The smallest limit among MLflow's stores; longer values are cut here and whole in the ``config.json`` artifact."""
MAX_BATCH = 500
FLUSH_S = 1.0
READY_S = 120.0
FAREWELL_S = 60.0
PARENT, STAGE, RUN, CACHED = "mlflow.parentRunId", "headrace.stage", "headrace.run", "headrace.cached"


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """The pipeline run a stage belongs to. Without a pipeline nothing is tracked."""

    pipeline: str = ""
    run_id: str = ""
    mlflow_run_id: str = ""
    """The parent run."""


def tracking_uri() -> str:
    """``MLFLOW_TRACKING_URI``, else a SQLite file under ``var/``."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{VAR}/mlflow/mlflow.db"


_tracker: ContextVar[Tracker | None] = ContextVar("tracker", default=None)


def current_run_id() -> str:
    """The MLflow run of the stage that runs; empty when it is not tracked. Waits until the run is open."""
    tracker = _tracker.get()
    return tracker.run_id if tracker else ""


class Tracker:
    """A sink that hands everything to the tracking process. Trouble there is told once and stops nothing."""

    def __init__(self, run: RunContext, stage: str, params: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        self._start = {"kind": "start", "run": asdict(run), "stage": stage, "params": params, "tags": tags}
        self._process: subprocess.Popen[str] | None = None
        self._enabled = bool(run.pipeline)
        self._gone = False

    def __enter__(self) -> Self:
        if not self._enabled:
            return self
        command = [sys.executable, "-m", "tasks.core.tracking"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, start_new_session=True
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
        if not self._enabled:
            return
        _tracker.reset(self._token)
        if self._process is None:
            return
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
            warn(f"not tracked: {answer.get('error', 'the tracking process gave no answer')}")
        return answer

    def _send(self, message: Mapping[str, Any]) -> None:
        if self._process is None or self._process.stdin is None or self._gone:
            return
        try:
            self._process.stdin.write(json.dumps(message, ensure_ascii=False) + "\n")
            self._process.stdin.flush()
        except OSError:
            warn("the tracking process is gone; the stage goes on without it")
            self._gone = True

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


def warn(line: str) -> None:
    """Say that tracking is in trouble; once per event, on the stage's log."""
    print(f"warning: MLflow: {line}", file=sys.stderr, flush=True)


def now_ms() -> int:
    return int(time.time() * 1000)


# --- below: what runs where MLflow is imported -----------------------------------------------------------------


def client() -> MlflowClient:
    """A client of the tracking server or file.

    Raises:
        ServiceError: when it cannot be reached.
    """
    uri = tracking_uri()
    if uri.startswith("sqlite:///"):
        Path(uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    try:
        return MlflowClient(uri)
    except (MlflowException, OSError) as error:
        raise ServiceError(f"MLflow at {uri} cannot be used: {error}", next_step="check MLFLOW_TRACKING_URI") from error


def experiment_of(mlflow: MlflowClient, name: str) -> str:
    """Id of the experiment of a pipeline, made on first use; two processes may race for it."""
    from mlflow.exceptions import MlflowException

    found = mlflow.get_experiment_by_name(name)
    if found is None:
        location = f"file://{VAR}/mlflow/artifacts/{name}" if tracking_uri().startswith("sqlite:") else None
        try:
            return str(mlflow.create_experiment(name, artifact_location=location))
        except MlflowException:
            found = mlflow.get_experiment_by_name(name)
            if found is None:
                raise
    return str(found.experiment_id)


def open_run(mlflow: MlflowClient, run: RunContext, stage: str, tags: Mapping[str, str]) -> Run:
    """The run of a pipeline run (``stage`` empty) or of one of its stages; found again by a retry."""
    experiment = experiment_of(mlflow, run.pipeline)
    wanted = f"tags.`{RUN}` = '{quoted(run.run_id)}' and tags.`{STAGE}` = '{quoted(stage)}'"
    found = mlflow.search_runs([experiment], wanted, max_results=1)
    if found:
        mlflow.update_run(found[0].info.run_id, status="RUNNING")
        return mlflow.get_run(found[0].info.run_id)
    parent = {PARENT: run.mlflow_run_id} if stage and run.mlflow_run_id else {}
    own = {RUN: run.run_id, STAGE: stage, "mlflow.source.name": f"dags/{run.pipeline}.py", **parent, **tags}
    return mlflow.create_run(experiment, tags=own, run_name=stage or run.run_id)


def quoted(text: str) -> str:
    """A value inside a search filter; MLflow has no escape for its quote, so a run id may not hold one."""
    return re.sub(r"['\"`\\]", "_", text)


def url_of(run: Run) -> str:
    """Where a browser finds a run."""
    base = os.environ.get("MLFLOW_UI_URL", "http://127.0.0.1:5000")
    return f"{base}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"


def open_parent(pipeline: str, run_id: str) -> dict[str, str]:
    """Open the run that the stages of one pipeline run become children of.

    A tracker that is down does not stop the pipeline: the ids are empty then, and a warning is printed.
    """
    from mlflow.exceptions import MlflowException

    try:
        run = open_run(client(), RunContext(pipeline=pipeline, run_id=run_id), "", {})
    except (MlflowException, ServiceError, OSError) as error:
        warn(f"the pipeline run is not tracked: {error}")
        return {"mlflow_run_id": "", "mlflow_url": ""}
    return {"mlflow_run_id": run.info.run_id, "mlflow_url": url_of(run)}


def close(run: RunContext, status: str, cached: Iterable[Mapping[str, Any]]) -> None:
    """End a pipeline run: children for the cached stages, anything left open closed, then the parent."""
    from mlflow.exceptions import MlflowException

    if not run.mlflow_run_id:
        return
    try:
        _close(client(), run, status, cached)
    except (MlflowException, ServiceError, OSError) as error:
        warn(f"the pipeline run was not closed: {error}")


def _close(mlflow: MlflowClient, run: RunContext, status: str, cached: Iterable[Mapping[str, Any]]) -> None:
    for outcome in cached:
        child = open_run(mlflow, run, outcome["stage"], {CACHED: "true", "headrace.made_by": outcome["mlflow_run_id"]})
        log_result(mlflow, child.info.run_id, outcome["result"])
        mlflow.set_terminated(child.info.run_id, "FINISHED")
    experiment = experiment_of(mlflow, run.pipeline)
    for one in mlflow.search_runs([experiment], f"tags.`{PARENT}` = '{quoted(run.mlflow_run_id)}'"):
        if one.info.status == "RUNNING":
            mlflow.set_terminated(one.info.run_id, "KILLED")
    mlflow.set_terminated(run.mlflow_run_id, status)


def log_result(mlflow: MlflowClient, run_id: str, result: Mapping[str, Any]) -> None:
    """A stage's result on its run."""
    metrics = [metric_of(name, value, None, now_ms()) for name, value in numbers_in(result)]
    for start in range(0, len(metrics), MAX_BATCH):
        mlflow.log_batch(run_id, metrics=metrics[start : start + MAX_BATCH])
    mlflow.log_dict(run_id, dict(result), "result.json")


def metric_of(name: str, value: float, step: int | None, at_ms: int) -> Metric:
    from mlflow.entities import Metric

    return Metric(metric_name(name), value, at_ms, step or 0)


def metric_name(name: str) -> str:
    """A name MLflow accepts: letters, digits, ``_ - . / : space``; at most 250 characters."""
    return re.sub(r"[^\w\-./: ]", "_", name, flags=re.ASCII)[:250]


def numbers_in(values: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Every number in nested mappings, with slashes between the names."""
    if isinstance(values, Mapping):
        for key, inner in values.items():
            yield from numbers_in(inner, f"{name}/{key}" if name else str(key))
    elif isinstance(values, int | float):
        yield name, float(values)


def params_in(values: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Every knob as a short text, nested ones with dotted names; lists as JSON."""
    if isinstance(values, Mapping) and values:
        for key, inner in values.items():
            yield from params_in(inner, f"{name}.{key}" if name else str(key))
    else:
        text = values if isinstance(values, str) else json.dumps(values, ensure_ascii=False)
        yield metric_name(name), text if len(text) <= MAX_PARAM_CHARS else f"{text[: MAX_PARAM_CHARS - 1]}…"


def serve(lines: IO[str], answer: IO[str]) -> None:
    """The tracking process: open the run, say its id, then write what arrives until the farewell or the end."""
    start = json.loads(lines.readline())
    messages = read_in_thread(lines)  # from now on: a stage must not wait for a server that hangs
    try:
        mlflow = client()
        run = open_run(mlflow, RunContext(**start["run"]), start["stage"], start["tags"])
    except Exception as error:  # noqa: BLE001 (anything: the stage must go on, and hears why it is not tracked)
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answer, flush=True)
        return
    print(json.dumps({"run_id": run.info.run_id, "url": url_of(run)}), file=answer, flush=True)
    writer = Writer(mlflow, run.info.run_id)
    writer.attempt(log_params, mlflow, run.info.run_id, start["params"])
    write_events(writer, messages)
    writer.attempt(mlflow.set_terminated, run.info.run_id, writer.status)


def log_params(mlflow: MlflowClient, run_id: str, params: Mapping[str, Any]) -> None:
    """The knobs as parameters, and whole as an artifact. A parameter of a continued run cannot be changed."""
    from mlflow.entities import Param

    known = mlflow.get_run(run_id).data.params
    fresh = [Param(name, text) for name, text in params_in(params) if name not in known]
    for begin in range(0, len(fresh), 100):
        mlflow.log_batch(run_id, params=fresh[begin : begin + 100])
    mlflow.log_dict(run_id, dict(params), "config.json")


def read_in_thread(lines: IO[str]) -> queue.Queue[dict[str, Any] | None]:
    """The messages as they come; None at the end of the input."""
    messages: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def read() -> None:
        for line in lines:
            messages.put(json.loads(line))
        messages.put(None)

    threading.Thread(target=read, daemon=True).start()
    return messages


class Writer:
    """Writes messages to one run: metrics in batches, samples and results whole."""

    def __init__(self, mlflow: MlflowClient, run_id: str) -> None:
        self.mlflow = mlflow
        self.run_id = run_id
        self.status = "KILLED"
        self.metrics: list[Metric] = []
        self.samples: list[str] = []
        self.in_trouble = False

    def take(self, message: Mapping[str, Any]) -> None:
        """Keep or write one message."""
        kind = message["kind"]
        if kind == "metric":
            self.metrics.append(metric_of(message["name"], message["value"], message["step"], message["at_ms"]))
        elif kind == "sample":
            self.samples.append(json.dumps({"name": message["name"], "text": message["text"]}, ensure_ascii=False))
        elif kind == "result":
            self.attempt(log_result, self.mlflow, self.run_id, message["result"])
        elif kind == "end":
            self.status = message["status"]

    def flush(self) -> None:
        """Write the metrics gathered so far; what cannot be written now is kept for the next time."""
        while self.metrics and self.attempt(self.mlflow.log_batch, self.run_id, metrics=self.metrics[:MAX_BATCH]):
            self.metrics = self.metrics[MAX_BATCH:]

    def attempt(self, write: Callable[..., Any], *arguments: Any, **named: Any) -> bool:
        """Write something; trouble is told once and stops nothing. Returns whether it was written."""
        try:
            write(*arguments, **named)
        except Exception as error:  # noqa: BLE001 (a database that is locked, a server that is down: anything)
            if not self.in_trouble:
                warn(f"cannot write now: {error}")
            self.in_trouble = True
            return False
        self.in_trouble = False
        return True

    def finish(self) -> None:
        """Write what is left."""
        self.flush()
        if self.samples:
            self.attempt(self.mlflow.log_text, self.run_id, "\n".join(self.samples) + "\n", "samples.jsonl")


def write_events(writer: Writer, messages: queue.Queue[dict[str, Any] | None]) -> None:
    """Write messages at most ``FLUSH_S`` late until their end."""
    flushed = time.monotonic()
    while True:
        try:
            message = messages.get(timeout=FLUSH_S)
        except queue.Empty:
            message = {"kind": "nothing"}
        if message is None:
            break
        writer.take(message)
        if time.monotonic() - flushed >= FLUSH_S:
            writer.flush()
            flushed = time.monotonic()
    writer.finish()


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
