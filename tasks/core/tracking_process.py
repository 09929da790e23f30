"""The process that writes a stage's run to MLflow: reads JSON lines, batches, and outlives the stage if it dies.

Started by :class:`tasks.core.tracking.Tracker`. Trouble with MLflow is told once and stops nothing; what could not be
written stays in the spool, and :func:`replay` writes it when MLflow is back.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tasks.core.errors import ServiceError
from tasks.core.mlflow_runs import (
    MAX_BATCH,
    RunContext,
    client,
    end_run,
    log_params,
    log_result,
    metric_of,
    open_run,
    settle_parent,
    tracking_uri,
    url_of,
    warn,
)
from tasks.core.spool import left_spools

if TYPE_CHECKING:
    from mlflow.entities import Metric, Run
    from mlflow.tracking import MlflowClient

FLUSH_S = 1.0


def serve(lines: IO[str], answer: IO[str], spool: Path) -> None:
    """The tracking process: open the run, say its id, then write what arrives until the farewell or the end.

    ``spool`` holds the same messages; it is removed when all of them were written.
    """
    start = json.loads(lines.readline())
    messages = read_in_thread(lines)  # from now on: a stage must not wait for a server that hangs

    def say(reply: Mapping[str, str]) -> None:
        print(json.dumps(reply), file=answer, flush=True)

    try:
        complete = write_run(start, messages, lambda run: say({"run_id": run.info.run_id, "url": url_of(run)}))
    except Exception as error:  # noqa: BLE001 (anything: the stage must go on, and hears why it is not tracked)
        say({"error": f"{type(error).__name__}: {error}; kept for later in {spool}"})
        return
    if complete:
        spool.unlink()


def write_run(
    start: Mapping[str, Any], messages: queue.Queue[dict[str, Any] | None], opened: Callable[[Run], None]
) -> bool:
    """Write one run of a stage from its first message to its last; returns whether nothing was lost on the way."""
    mlflow = client()
    run = open_run(mlflow, RunContext(**start["run"]), start["stage"], start["tags"], start["at_ms"])
    opened(run)
    writer = Writer(mlflow, run.info.run_id)
    writer.write(log_params, mlflow, run.info.run_id, start["params"])
    write_events(writer, messages)
    writer.write(end_run, mlflow, run.info.run_id, writer.status, start["at_ms"])
    writer.write(settle_parent, mlflow, RunContext(**start["run"]))
    return not writer.lost


def replay() -> int:
    """Write the runs that an outage left behind; returns how many. What MLflow has already is not changed.

    Raises:
        ServiceError: MLflow still cannot take them; what is left stays for the next time.
    """
    count = 0
    for spool in left_spools():
        try:
            written = replay_one(list(spool.messages()))
        except Exception as error:
            raise ServiceError(
                f"MLflow at {tracking_uri()} cannot take what was kept for it: {type(error).__name__}: {error}",
                subject=str(spool.path),
                next_step="when it is back: python -m tasks replay",
            ) from error
        if written:
            spool.done()
            count += 1
    return count


def replay_one(spooled: list[dict[str, Any]]) -> bool:
    """Write one run from its messages; whether all of it arrived. Without a first message there is nothing to write."""
    if not spooled:
        return True
    messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
    for message in [*spooled[1:], None]:
        messages.put(message)
    return write_run(spooled[0], messages, lambda _run: None)


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
        self.lost = False
        """Whether something was not written and will not be tried again here."""

    def take(self, message: Mapping[str, Any]) -> None:
        """Keep or write one message."""
        kind = message["kind"]
        if kind == "metric":
            self.metrics.append(metric_of(message["name"], message["value"], message["step"], message["at_ms"]))
        elif kind == "sample":
            self.samples.append(json.dumps({"name": message["name"], "text": message["text"]}, ensure_ascii=False))
        elif kind == "result":
            self.write(log_result, self.mlflow, self.run_id, message["result"])
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

    def write(self, write: Callable[..., Any], *arguments: Any, **named: Any) -> None:
        """As :meth:`attempt`, for what is not tried again: remembers that it is lost."""
        self.lost |= not self.attempt(write, *arguments, **named)

    def finish(self) -> None:
        """Write what is left."""
        self.flush()
        self.lost |= bool(self.metrics)
        if self.samples:
            self.write(self.mlflow.log_text, self.run_id, "\n".join(self.samples) + "\n", "samples.jsonl")


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
    serve(sys.stdin, sys.stdout, Path(sys.argv[1]))
