"""The right to work on one key: one holder at a time, and each knows whether it was overtaken.

    <store>/<stage>/<key>/.lock                          local: held with flock, freed however its holder ends
    <store>/<stage>/<key>/workspace.lease/<n>.json       who holds generation n; made exclusively, so n only rises
    <store>/<stage>/<key>/workspace.lease/<n>.released   remote: generation n was given back

The lock keeps a second holder out; a remote store has none, there it is the sign of life of ``<n>.json``. The
generation stops a first one that lost the lock without noticing: training processes whose stage was killed, a network
or a mount that was cut off and came back.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from upath import UPath

from tasks.core.errors import TryAgain
from tasks.core.location import names_in

LEASE = "workspace.lease"
LOCK = ".lock"


@dataclass(frozen=True)
class Lease:
    """One turn of working on a key; plain values, because training processes are told them as JSON."""

    folder: str
    """Where the generations are: a path or URI that every process of the stage can read."""
    generation: int

    def check(self) -> None:
        """Ask before anything is published or a checkpoint is written.

        Raises:
            TryAgain: another run has taken the key since.
        """
        newest = newest_generation(UPath(self.folder))
        if newest > self.generation:
            raise TryAgain(
                f"overtaken: this run holds generation {self.generation} of the key, another one took {newest}",
                subject=self.folder,
                next_step="run the same command; it takes what the other run makes, or continues after it",
            )


def newest_generation(folder: UPath) -> int:
    """The highest generation that was ever taken; 0 before the first."""
    stems = [name.removesuffix(".json") for name in names_in(folder) if name.endswith(".json")]
    return max((int(stem) for stem in stems if stem.isdigit()), default=0)


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
