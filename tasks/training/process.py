"""Where every training process begins: logs, an empty room, and an ear for failure around the actual job.

torchrun starts ``python -m tasks.training.process FOLDER MODULE FUNCTION``, and ``MODULE.FUNCTION(exchange, job)`` does
the work. Imports are light, because what the job imports is slow and may fail too.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks.core import workspace
from tasks.core.errors import TryAgain
from tasks.core.lease import Lease
from tasks.training.exchange import Exchange

UNUSED = ("mlflow", "scipy", "sklearn")
"""DeepSpeed's autotuner and transformers' losses and generation import these if they can; hidden, a process starts
with 10 s less work."""


def main(folder: Path, module: str, function: str) -> None:
    """Run a job as one of the processes of a launch; a failure is left for the supervisor to tell."""
    exchange, rank = Exchange(folder), int(os.environ["RANK"])
    redirect_output(exchange.logs / f"rank-{rank}.log")
    try:
        job = exchange.read_job()
        lease = Lease(**job["lease"]) if job["lease"] else None
        with alone(folder / f"rank-{rank}.lock"), workspace.bound(folder, lease):
            sys.modules.update(dict.fromkeys(UNUSED))  # type: ignore[arg-type]
            getattr(importlib.import_module(module), function)(exchange, job)
    except BaseException as error:
        exchange.write_failure(error)
        raise


def redirect_output(log: Path) -> None:
    """Send all that this process prints to a file: DeepSpeed and torch say much that is nobody's concern."""
    with log.open("ab") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Refuse to work beside the processes of an earlier attempt that has not ended yet.

    Raises:
        TryAgain: when they are still there.
    """
    with lock.open("a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TryAgain("processes of an earlier attempt are still saving", next_step="wait a minute") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
