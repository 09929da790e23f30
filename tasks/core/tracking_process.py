"""The process that writes a stage's run to MLflow: reads JSON lines, batches, and outlives the stage if it dies.

Started by :class:`tasks.core.tracking.Tracker`. Trouble with MLflow is told once and stops nothing.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import IO, TYPE_CHECKING, Any

from tasks.core.mlflow_runs import (
    MAX_BATCH,
    RunContext,
    client,
    log_params,
    log_result,
    metric_of,
    open_run,
    url_of,
    warn,
)

if TYPE_CHECKING:
    from mlflow.entities import Metric
    from mlflow.tracking import MlflowClient

FLUSH_S = 1.0


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
