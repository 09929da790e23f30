"""The sample ledger: which samples every process of a training read, and where in the split.

    ledger/index.json          what was planned: steps, samples per step, samples of the training split
    ledger/rank-00000.passes   one PASS for each forward pass of a process
    ledger/rank-00000.places   one PLACE for each sample of those passes

It is kept by those who read, when they have read; :mod:`tasks.training.exactly_once` proves from it that each sample
was read exactly once per epoch. A step that was skipped because its loss was not finite has read its samples all the
same. What follows the newest checkpoint when a run dies is cut off when it resumes, because it will be read again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.core.errors import DataError
from tasks.core.store import sync_folder
from tasks.training.exchange import write_json

INDEX = "index.json"
PASS = np.dtype([("step", "<u4"), ("num_processes", "<u4"), ("first", "<u8"), ("count", "<u4")])
"""The step, counted from 1, and how many processes it had; the number of the first sample, and how many from there."""
PLACE = np.dtype("<u4")
SAMPLE = np.dtype([(name, np.int64) for name in ("step", "rank", "num_processes", "number", "place")])
"""One sample as :func:`read` gives it back."""

Samples = npt.NDArray[Any]
"""An array of :data:`SAMPLE`."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a ledger is held against."""

    num_steps: int
    global_batch: int
    """Samples per step, over all processes."""
    num_samples: int
    """Places in the training split."""


class LedgerWriter:
    """Appends what one process reads: 4 bytes per sample and 20 per forward pass."""

    def __init__(self, folder: Path, rank: int, num_processes: int) -> None:
        self.folder, self.num_processes = folder, num_processes
        self.passes, self.places = files_of(folder, f"rank-{rank:05d}")

    def record(self, step: int, numbers: range, places: Sequence[int]) -> None:
        """Note that the samples of ``numbers`` were read at ``places``, for the ``step``-th step, counted from 1."""
        assert len(numbers) == len(places)
        with self.places.open("ab") as file:
            file.write(np.array(places, PLACE).tobytes())
        with self.passes.open("ab") as file:
            file.write(np.array((step, self.num_processes, numbers.start, len(numbers)), PASS).tobytes())

    def sync(self) -> None:
        """Make the ledger durable; called before a checkpoint that continues it."""
        for path in (self.places, self.passes):
            with path.open("ab") as file:
                os.fsync(file.fileno())
        sync_folder(self.folder)


def files_of(folder: Path, name: str) -> tuple[Path, Path]:
    """Passes and places of one process."""
    return folder / f"{name}.passes", folder / f"{name}.places"


def processes(folder: Path) -> list[str]:
    """Names of the processes that ever wrote; one that was killed at once may have only one of its files."""
    return sorted({path.stem for path in folder.glob("rank-*")})


def load(path: Path, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The whole records of a file; none when it is not there."""
    return np.fromfile(path, dtype) if path.is_file() else np.empty(0, dtype)


def begin(folder: Path, terms: Terms, last_step: int) -> None:
    """Begin a ledger, or cut it back to ``last_step``."""
    folder.mkdir(exist_ok=True)
    write_json(folder / INDEX, asdict(terms))
    for name in processes(folder):
        passes, places = files_of(folder, name)
        written = load(passes, PASS)
        kept = written[: np.searchsorted(written["step"], last_step, side="right")]
        shorten(passes, kept.nbytes)
        shorten(places, int(kept["count"].sum()) * PLACE.itemsize)


def shorten(path: Path, size_bytes: int) -> None:
    """Cut a file durably; one that is too short stays so, for the proof to fail."""
    if path.is_file() and path.stat().st_size > size_bytes:
        with path.open("r+b") as file:
            file.truncate(size_bytes)
            os.fsync(file.fileno())


def read_terms(folder: Path) -> Terms:
    """What a ledger is held against.

    Raises:
        DataError: there is no ledger.
    """
    path = folder / INDEX
    if not path.is_file():
        raise DataError(f"{folder} holds no sample ledger: {INDEX} is missing", subject=str(folder))
    return Terms(**json.loads(path.read_text("utf-8")))


def read(folder: Path) -> Samples:
    """All samples of a ledger, process by process, each process's in the order in which it read them.

    Raises:
        DataError: there are more or fewer places than the passes have samples.
    """
    return np.concatenate([np.empty(0, SAMPLE), *(read_process(folder, name) for name in processes(folder))])


def read_process(folder: Path, name: str) -> Samples:
    """The samples that one process read."""
    files = files_of(folder, name)
    passes, places = load(files[0], PASS), load(files[1], PLACE)
    counts = passes["count"].astype(np.int64)
    if len(places) != counts.sum():
        raise DataError(
            f"{files[1].name} of the sample ledger holds {len(places)} places for {counts.sum()} samples",
            subject=str(files[1]),
            next_step="train anew (--force)",
        )
    samples = np.empty(len(places), SAMPLE)
    for column in ("step", "num_processes"):
        samples[column] = np.repeat(passes[column], counts)
    within_pass = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
    samples["number"] = np.repeat(passes["first"].astype(np.int64), counts) + within_pass
    samples["place"], samples["rank"] = places, int(name.removeprefix("rank-"))
    return samples
