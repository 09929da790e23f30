"""One file of tokens that two kinds of reader take as it is: ours by memory map, and whatever reads Arrow streams.

A shard is an uncompressed Arrow IPC stream (Apache Arrow columnar format 1.0, "IPC Streaming Format") with one row
per document and the one column ``input_ids``. Within a record batch the ids of all its documents lie side by side, so
the index only has to say at which byte they begin. See docs/decisions/0014-token-shards-are-arrow.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

COLUMN = "input_ids"
BATCH_TOKENS = 2**20
"""Tokens in a record batch at most, unless one document alone has more: what a streaming reader holds in memory."""
ALIGNMENT = 8
"""Bytes to whose multiple Arrow fills up every buffer and message."""
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"

Stored = npt.NDArray[np.unsignedinteger[Any]]
Lengths = npt.NDArray[np.int64]


def schema_of(dtype: np.dtype[Any]) -> pa.Schema:
    """The one column of a shard whose ids are stored as ``dtype``, ``uint16`` or ``uint32``."""
    return pa.schema([(COLUMN, pa.list_(pa.from_numpy_dtype(dtype.newbyteorder("="))))])


@dataclass
class Batches:
    """Where the record batches of one shard are, as the index holds it; one entry each in every list."""

    start: list[int] = field(default_factory=list)
    """Byte at which the batch's message begins; it ends where the next begins."""
    tokens_at: list[int] = field(default_factory=list)
    """Byte at which its ids begin, a multiple of :data:`ALIGNMENT`."""
    num_tokens: list[int] = field(default_factory=list)
    num_documents: list[int] = field(default_factory=list)


def write_shard(sink: BinaryIO, dtype: np.dtype[Any], batches: Iterable[tuple[Stored, Lengths]]) -> dict[str, Any]:
    """Write a shard; returns ``{"size_bytes", "num_tokens", "num_documents", "batches"}`` for the index.

    Every batch is the ids of its documents side by side, and how many each has. Only one is in memory at a time, and
    ``sink`` need not be able to seek.
    """
    written, size_bytes = Batches(), sink.write(schema_of(dtype).serialize().to_pybytes())
    for tokens, lengths in batches:
        message = _batch(tokens, lengths, dtype).serialize().to_pybytes()
        written.start.append(size_bytes)
        size_bytes += sink.write(message)
        # The ids are the last buffer of the message, filled up at its end.
        written.tokens_at.append(size_bytes - -(-tokens.nbytes // ALIGNMENT) * ALIGNMENT)
        written.num_tokens.append(len(tokens))
        written.num_documents.append(len(lengths))
    size_bytes += sink.write(END_OF_STREAM)
    totals = {"num_tokens": sum(written.num_tokens), "num_documents": sum(written.num_documents)}
    return {"size_bytes": size_bytes, **totals, "batches": vars(written)}


def _batch(tokens: Stored, lengths: Lengths, dtype: np.dtype[Any]) -> pa.RecordBatch:
    assert tokens.dtype == dtype
    assert len(tokens) == lengths.sum()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    rows = pa.ListArray.from_arrays(pa.array(offsets), pa.array(tokens))
    return pa.record_batch([rows], schema_of(dtype))


def runs_of_at_most(lengths: Lengths, most: int) -> list[slice]:
    """Cut a sequence of documents into runs of at most ``most`` tokens; a longer document is a run of its own."""
    ends, runs, first = np.cumsum(lengths), [], 0
    while first < len(lengths):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        runs.append(slice(first, last))
        first = last
    return runs


def even_runs(lengths: Lengths, num_runs: int) -> list[slice]:
    """Cut a sequence of documents into exactly ``num_runs`` runs; some are empty when documents are few or uneven.

    A document is in the run into whose even share of the tokens its first token falls, so a run exceeds its share by
    less than its last document.
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    shares = [-(-number * total // num_runs) for number in range(num_runs + 1)]
    cuts = [int(cut) for cut in np.searchsorted(ends - lengths, shares)]
    return [slice(first, last) for first, last in pairwise(cuts)]
