"""Tokens of one split, read in place from memory-mapped shards by global position.

A training sample is named by one integer. Which process reads it, and how many there are, does not matter, so
a run can stop and go on with another number of processes and see the same samples.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.core.errors import DataError

INDEX = "index.json"
DOCUMENTS = "documents.parquet"

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
    ``int64`` copies, ready for torch and for arithmetic, whatever width is stored.

    Raises:
        DataError: when the folder has no index or no such split, or a shard's size is not what the index says.
    """

    def __init__(self, folder: Path, split: str) -> None:
        self.folder, self.split = Path(folder), split
        index = read_index(self.folder)
        if split not in index["splits"]:
            raise DataError(f"{folder} has no split {split!r}, only {', '.join(index['splits'])}", subject=str(folder))
        entry = index["splits"][split]
        self.dtype = np.dtype(index["dtype"]).newbyteorder("<")
        self.vocab_size: int = index["vocab_size"]
        self.eos_id: int = index["eos_id"]
        self.num_tokens: int = entry["num_tokens"]
        self.num_documents: int = entry["num_documents"]
        self.num_bytes: int = entry["num_bytes"]
        self._shards = [self._mapped(shard) for shard in entry["shards"]]
        self._ends = np.cumsum([len(shard) for shard in self._shards], dtype=np.int64)

    def _mapped(self, shard: dict[str, Any]) -> npt.NDArray[Any]:
        path = self.folder / shard["file"]
        expected = shard["num_tokens"] * self.dtype.itemsize
        found = path.stat().st_size if path.is_file() else 0
        if found != expected:
            raise DataError(
                f"{path} holds {found} bytes where the index says {expected}",
                subject=str(path),
                next_step="make the shards again",
            )
        return np.memmap(path, dtype=self.dtype, mode="r")

    def window(self, start: int, length: int) -> Tokens:
        """Tokens ``[start, start + length)`` of the split, across shard boundaries; shape ``(length,)``.

        Raises:
            IndexError: when the window is not inside the split.
        """
        if start < 0 or length < 0 or start + length > self.num_tokens:
            raise IndexError(f"window [{start}, {start + length}) of {self.num_tokens} {self.split} tokens")
        filled = np.empty(length, np.int64)
        shard, done = int(np.searchsorted(self._ends, start, side="right")), 0
        while done < length:
            tokens = self._shards[shard]
            first = start + done - (int(self._ends[shard]) - len(tokens))
            part = tokens[first : first + length - done]
            filled[done : done + len(part)] = part
            shard, done = shard + 1, done + len(part)
        return filled

    def num_samples(self, sequence_length: int) -> int:
        """How many whole samples of ``sequence_length`` inputs (and one more token as last target) there are."""
        return max(0, self.num_tokens - 1) // sequence_length

    def sample(self, global_index: int, sequence_length: int) -> Tokens:
        """Sample ``global_index``: shape ``(sequence_length + 1,)``; inputs are ``[:-1]``, targets ``[1:]``.

        Neighbouring samples share one token, so every token but the first is a target exactly once.
        """
        return self.window(global_index * sequence_length, sequence_length + 1)

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


def read_index(folder: Path) -> dict[str, Any]:
    """The ``index.json`` of a ``shards`` artifact.

    Raises:
        DataError: when there is none, which means the shards were never finished.
    """
    path = Path(folder) / INDEX
    if not path.is_file():
        raise DataError(f"{folder} has no {INDEX}", subject=str(folder), next_step="make the shards again")
    index: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return index
