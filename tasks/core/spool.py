"""What could not be told to MLflow yet: one file of JSON lines per run of a stage, kept until all of it is written.

The tracking process keeps every message here before it writes it, so neither a server that is down nor a process that
is killed loses anything. A file that is being written is locked; the kernel frees it however its writer ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from tasks.core.store import VAR


def folder() -> Path:
    """``HEADRACE_SPOOL``, else a folder under ``var/``."""
    return Path(os.environ.get("HEADRACE_SPOOL") or VAR / "mlflow" / "spool")


class Spool:
    """One run's messages on disk."""

    def __init__(self, path: Path, file: IO[str]) -> None:
        self.path, self._file = path, file

    def keep(self, message: Mapping[str, Any]) -> None:
        """Add one message; it survives this process, though not the machine's sudden end."""
        self._file.write(json.dumps(message, ensure_ascii=False) + "\n")
        self._file.flush()

    def messages(self) -> Iterator[dict[str, Any]]:
        """All messages from the first; one that was cut off by a kill ends them."""
        self._file.seek(0)
        for line in self._file:
            if not line.endswith("\n"):
                return
            yield json.loads(line)

    def done(self) -> None:
        """Everything was written to MLflow."""
        self.path.unlink()


@contextmanager
def new_spool(stage: str) -> Iterator[Spool]:
    """An empty spool that nobody replays while the block runs."""
    folder().mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    path = folder() / f"{now}-{stage}-{secrets.token_hex(4)}.jsonl"
    with path.open("x+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield Spool(path, file)


def left_spools() -> Iterator[Spool]:
    """Every spool that its writer left behind, oldest first; each is ours alone until the next is asked for."""
    for path in sorted(folder().glob("*.jsonl")):
        try:
            with path.open("r+", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path.exists():  # another replay may have just finished with it
                    yield Spool(path, file)
        except (BlockingIOError, FileNotFoundError):
            continue
