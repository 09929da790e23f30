"""What could not be told to MLflow yet: one file of JSON lines per run of a stage, kept until all of it is written.

The stage keeps every message here before it sends it, so neither a server that is down nor a tracking process that is
killed loses anything; the tracking process removes the file when it has written all. Both hold the file's lock, by one
shared descriptor, and the kernel frees it when the last of them has ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from tasks.core.store import VAR

LAST = "last-attempt"


def folder() -> Path:
    """``HEADRACE_SPOOL``, else a folder under ``var/``."""
    return Path(os.environ.get("HEADRACE_SPOOL") or VAR / "mlflow" / "spool")


class Spool:
    """One run's messages on disk."""

    def __init__(self, path: Path, file: IO[str]) -> None:
        self.path, self._file = path, file

    @property
    def descriptor(self) -> int:
        """To be inherited by who else needs the lock."""
        return self._file.fileno()

    def close(self) -> None:
        """Let go of the file and of our share of its lock."""
        self._file.close()

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


def new_spool(stage: str) -> Spool:
    """An empty spool that nobody replays until it is closed.

    Raises:
        OSError: the disk is full, or the folder cannot be written.
    """
    folder().mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    path = folder() / f"{now}-{stage}-{secrets.token_hex(4)}.jsonl"
    file = path.open("x+", encoding="utf-8")
    fcntl.flock(file, fcntl.LOCK_EX)
    return Spool(path, file)


def rising_ms() -> int:
    """The time in milliseconds, but later than whatever this said before: a retry comes after what it retries even if
    somebody sets the clock back meanwhile.

    Raises:
        OSError: the disk is full, or the folder cannot be written.
    """
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / LAST).open("a+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        said = max(int(time.time() * 1000), int(file.read() or 0) + 1)
        file.truncate(0)
        file.write(str(said))
        return said


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
