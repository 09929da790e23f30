"""The right to work on one key: one holder at a time, and each knows whether it was overtaken.

    <store>/<stage>/<key>/.lock                       held with flock; the kernel frees it however its holder ends
    <store>/<stage>/<key>/workspace.lease/<n>.json    who holds generation n; created exclusively, so n only rises

The lock keeps a second holder out. The generation stops a first one that lost the lock without noticing: training
processes whose stage was killed, a mount that was cut off and came back.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tasks.core.errors import TryAgain

LEASE = "workspace.lease"
LOCK = ".lock"


@dataclass(frozen=True)
class Lease:
    """One turn of working on a key; plain values, because training processes are told them as JSON."""

    folder: str
    """Where the generations are, on a disk that every process of the stage sees."""
    generation: int

    def check(self) -> None:
        """Ask before anything is published or a checkpoint is written.

        Raises:
            TryAgain: another run has taken the key since.
        """
        newest = newest_generation(Path(self.folder))
        if newest > self.generation:
            raise TryAgain(
                f"overtaken: this run holds generation {self.generation} of the key, another one took {newest}",
                subject=self.folder,
                next_step="run the same command; it takes what the other run makes, or continues after it",
            )


def newest_generation(folder: Path) -> int:
    """The highest generation that was ever taken; 0 before the first."""
    return max((int(path.stem) for path in folder.glob("*.json") if path.stem.isdigit()), default=0)


@contextmanager
def alone_in(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a folder, which is made if need be.

    Raises:
        BlockingIOError: somebody else holds it, and ``wait`` is false.
    """
    with open_lock(folder, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB):
        yield


def open_lock(folder: Path, operation: int) -> IO[str]:
    """A folder's lock file, locked. The folder may be swept while this one waits; then it is made anew."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack, suppress(FileNotFoundError):
            file = stack.enter_context((folder / LOCK).open("w"))
            fcntl.flock(file, operation)
            if os.path.samestat(os.fstat(file.fileno()), (folder / LOCK).stat()):
                stack.pop_all()
                return file
