"""Tokens of one split, read in place from memory-mapped shards by global position.

A training sample is named by one integer. Which process reads it, and how many there are, does not matter, so
a run can stop and go on with another number of processes and see the same samples.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.lib.stride_tricks import sliding_window_view
from upath import UPath

from tasks.core.errors import DataError

INDEX = "index.json"
DOCUMENTS = "documents.parquet"
FORMAT = "arrow-stream"
"""How the index names what tasks/lm/shard_file.py writes."""
FEW = 32
"""Up to so many samples are sooner read one by one than by file."""
READ_AHEAD_TOKENS = 2**18
"""Tokens read at once where batches are read in an order; 2 MB as ``int64``."""

Tokens = npt.NDArray[np.int64]


def sample_order(num_samples: int, epoch: int, seed: int) -> Tokens:
    """The order in which one epoch visits the samples: a permutation of ``range(num_samples)``.

    Sorts raw PCG64 draws, whose stream NumPy guarantees across versions (it does not for ``permutation``).
    """
    draws = np.random.PCG64(np.random.SeedSequence((seed, epoch))).random_raw(num_samples)
    return np.argsort(draws, kind="stable").astype(np.int64)


class TokenShards:
    """The tokens of one split of a ``shards`` artifact in a local folder.

    ``num_tokens`` counts every stored token; each document ends with ``eos_id``. Arrays that come back are
    ``int64`` copies, ready for torch and for arithmetic, whatever width is stored. Nothing but the place of the record
    batches is held in memory; the ids are read from the memory-mapped files.

    Raises:
        DataError: when the folder has no index or no such split, or a shard's size is not what the index says.
    """

    def __init__(self, folder: Path, split: str) -> None:
        self.folder, self.split = Path(folder), split
        index = read_index(self.folder)
        entry = split_entry(index, self.folder, split)
        self.dtype = np.dtype(index["dtype"]).newbyteorder("<")
        self.vocab_size: int = index["vocab_size"]
        self.eos_id: int = index["eos_id"]
        self.num_tokens: int = entry["num_tokens"]
        self.num_documents: int = entry["num_documents"]
        self.num_bytes: int = entry["num_bytes"]
        self._files = [self._mapped(shard) for shard in entry["shards"]]
        batches = [shard["batches"] for shard in entry["shards"]]
        self._windows_of: dict[tuple[int, int], npt.NDArray[Any]] = {}
        self._file_of = np.repeat(np.arange(len(batches)), [len(one["num_tokens"]) for one in batches])
        self._ends, self._shift = _places(batches, self.dtype.itemsize)

    def _mapped(self, shard: dict[str, Any]) -> npt.NDArray[Any]:
        path, expected = self.folder / shard["file"], shard["size_bytes"]
        found = path.stat().st_size if path.is_file() else 0
        if found != expected:
            raise DataError(
                f"{path} holds {found} bytes where the index says {expected}",
                subject=str(path),
                next_step="make the shards again",
            )
        # As a plain array: slicing one costs a third of slicing the memmap that it still refers to.
        return np.asarray(np.memmap(path, dtype=self.dtype, mode="r"))

    def window(self, start: int, length: int) -> Tokens:
        """Tokens ``[start, start + length)`` of the split, across shard boundaries; shape ``(length,)``.

        Raises:
            IndexError: when the window is not inside the split.
        """
        if start < 0 or length < 0 or start + length > self.num_tokens:
            raise IndexError(f"window [{start}, {start + length}) of {self.num_tokens} {self.split} tokens")
        filled = np.empty(length, np.int64)
        batch, done = int(self._ends.searchsorted(start, "right")), 0
        while done < length:
            first, shift = start + done, int(self._shift[batch])
            last = min(start + length, int(self._ends[batch]))
            filled[done : last - start] = self._files[self._file_of[batch]][first + shift : last + shift]
            batch, done = batch + 1, last - start
        return filled

    def num_samples(self, sequence_length: int) -> int:
        """How many whole samples of ``sequence_length`` inputs (and one more token as last target) there are."""
        return max(0, self.num_tokens - 1) // sequence_length

    def sample(self, global_index: int, sequence_length: int) -> Tokens:
        """Sample ``global_index``: shape ``(sequence_length + 1,)``; inputs are ``[:-1]``, targets ``[1:]``.

        Neighbouring samples share one token, so every token but the first is a target exactly once.
        """
        return self.window(global_index * sequence_length, sequence_length + 1)

    def samples(self, global_indices: Sequence[int] | Tokens, sequence_length: int) -> Tokens:
        """Several samples at once, as :meth:`sample` gives each; shape ``(len(global_indices), sequence_length + 1)``.

        Raises:
            IndexError: when one of them is not inside the split.
        """
        length, starts = sequence_length + 1, np.asarray(global_indices, np.int64) * sequence_length
        filled = np.empty((len(starts), length), np.int64)
        if len(starts) <= FEW:
            for row, start in enumerate(starts.tolist()):
                filled[row] = self.window(start, length)
            return filled
        batches = np.searchsorted(self._ends, starts, side="right")
        whole = (starts >= 0) & (starts + length <= np.append(self._ends, 0)[batches])
        for row in np.flatnonzero(~whole).tolist():
            filled[row] = self.window(int(starts[row]), length)
        rows = np.flatnonzero(whole)
        files, places = self._file_of[batches[rows]], starts[rows] + self._shift[batches[rows]]
        for file in np.unique(files).tolist():
            chosen = files == file
            filled[rows[chosen]] = self._windows(file, length)[places[chosen]]
        return filled

    def _windows(self, file: int, length: int) -> npt.NDArray[Any]:
        """All windows of a file, the one from each token on, without a copy; shape ``(num_windows, length)``."""
        if (file, length) not in self._windows_of:
            self._windows_of[file, length] = sliding_window_view(self._files[file], length)
        return self._windows_of[file, length]

    def batches(self, order: Tokens, sequence_length: int, batch_size: int) -> Iterator[Tokens]:
        """The samples in an order, ``batch_size`` at a time; each has the shape ``(batch_size, sequence_length + 1)``,
        the last may have fewer rows.

        Some dozens of batches are read at once, which costs little more than one; so much is in memory.
        """
        step = batch_size * max(1, READ_AHEAD_TOKENS // (batch_size * (sequence_length + 1)))
        for first in range(0, len(order), step):
            samples = self.samples(order[first : first + step], sequence_length)
            yield from (samples[at : at + batch_size] for at in range(0, len(samples), batch_size))

    @cached_property
    def documents(self) -> pa.Table:
        """Rows ``[id, source, language, num_tokens, num_bytes, offset]`` in stored order.

        ``num_tokens`` includes the closing ``eos_id``; ``offset`` is in tokens from the start of the split.
        """
        return pq.read_table(self.folder / self.split / DOCUMENTS)

    @cached_property
    def _spans(self) -> Tokens:
        return np.stack([self.documents[name].to_numpy() for name in ("offset", "num_tokens")], axis=1)

    def document_tokens(self, document: int) -> Tokens:
        """Tokens of the document in row ``document`` of :attr:`documents`, its closing ``eos_id`` included."""
        offset, length = self._spans[document]
        return self.window(int(offset), int(length))


def _places(batches: list[dict[str, list[int]]], itemsize: int) -> tuple[Tokens, Tokens]:
    """For each record batch of the split the position after its last token, and what is added to a position in the
    split to get the position in its file, both counted in tokens.
    """
    num_tokens, tokens_at = (
        np.array([value for one in batches for value in one[name]], np.int64) for name in ("num_tokens", "tokens_at")
    )
    ends = np.cumsum(num_tokens, dtype=np.int64)
    return ends, tokens_at // itemsize - (ends - num_tokens)


def split_entry(index: dict[str, Any], folder: UPath | Path, split: str) -> dict[str, Any]:
    """What the index says about one split.

    Raises:
        DataError: when there is no such split.
    """
    if split not in index["splits"]:
        raise DataError(f"{folder} has no split {split!r}, only {', '.join(index['splits'])}", subject=str(folder))
    entry: dict[str, Any] = index["splits"][split]
    return entry


def read_index(folder: UPath | Path) -> dict[str, Any]:
    """The ``index.json`` of a ``shards`` artifact, in a local folder or wherever a ``UPath`` leads.

    Raises:
        DataError: when there is none, which means the shards were never finished, or it is of another format.
    """
    path = folder / INDEX
    if not path.is_file():
        raise DataError(f"{folder} has no {INDEX}", subject=str(folder), next_step="make the shards again")
    index: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if index.get("format") != FORMAT:
        raise DataError(
            f"{folder} holds shards of the format {index.get('format')!r}, not {FORMAT!r}",
            subject=str(folder),
            next_step="make the shards again",
        )
    return index
