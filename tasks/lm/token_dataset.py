"""Token shards as Hugging Face datasets: samples of one length in memory, or documents as a stream from anywhere.

``load_dataset("arrow", data_files="…/train/*.arrow", streaming=True)`` reads the same rows without this module. How
they are shared out among readers is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Dataset, DatasetInfo, Features, IterableDataset
from datasets.iterable_dataset import ArrowExamplesIterable
from numpy.lib.stride_tricks import sliding_window_view
from upath import UPath

from tasks.core.errors import DataError
from tasks.lm.shard_file import COLUMN, schema_of
from tasks.lm.token_shards import TokenShards, read_index, split_entry

CHUNK_SAMPLES = 4096


def token_dataset(folder: Path, split: str, sequence_length: int) -> Dataset:
    """The samples of a split as rows ``{"input_ids": [sequence_length + 1 ids]}``: row ``i`` is sample ``i``.

    Held in Arrow memory in the stored width: one copy of the split. It is not cached on disk, since a cache keyed by
    the folder would go stale when the shards are made again.
    """
    shards = TokenShards(folder, split)
    element = pa.uint16() if shards.dtype.itemsize == 2 else pa.uint32()
    row = pa.list_(element, sequence_length + 1)
    total = shards.num_samples(sequence_length)
    chunks = [
        _chunk(shards, first, min(first + CHUNK_SAMPLES, total), sequence_length, row)
        for first in range(0, total, CHUNK_SAMPLES)
    ]
    return Dataset(pa.table({COLUMN: pa.chunked_array(chunks, type=row)}))


def _chunk(shards: TokenShards, first: int, last: int, sequence_length: int, row: pa.DataType) -> pa.Array:
    """Samples ``[first, last)``; neighbours share one token, so a row starts every ``sequence_length`` tokens."""
    tokens = shards.window(first * sequence_length, (last - first) * sequence_length + 1)
    rows = sliding_window_view(tokens, sequence_length + 1)[::sequence_length]
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1), row.value_type), type=row)


@dataclass(frozen=True)
class Piece:
    """Some documents of one record batch."""

    file: str
    start: int
    size_bytes: int
    """Where in the file the batch's message is."""
    first: int
    last: int
    """Which of its rows: ``[first, last)``."""


Part = tuple[Piece, ...]
"""What one reader reads, in order."""


def streamed_dataset(
    folder: UPath | Path | str, split: str, *, rank: int = 0, world_size: int = 1, num_workers: int = 1
) -> IterableDataset:
    """The documents of a split as rows ``{"input_ids": ids}`` that reader ``rank`` of ``world_size`` is to read.

    Every document goes to exactly one of the readers; each gets as many neighbouring documents as the others, give or
    take one, however many shard files there are. Batches are fetched by their place in the file, one at a time.
    ``num_workers`` is that of the ``DataLoader`` around it: each worker is a reader of its own.

    Raises:
        DataError: when there are more readers than documents, so that some would have nothing to read.
    """
    root = UPath(folder)
    index = read_index(root)
    entry = split_entry(index, root, split)
    parts = parts_of(entry, world_size * max(1, num_workers))
    mine = parts[rank * len(parts) // world_size : (rank + 1) * len(parts) // world_size]
    schema = schema_of(np.dtype(index["dtype"]))
    rows = ArrowExamplesIterable(_tables, {"parts": mine, "root": root, "schema": schema})
    return IterableDataset(rows, info=DatasetInfo(features=Features.from_arrow_schema(schema)))


def parts_of(entry: dict[str, Any], num_readers: int) -> list[Part]:
    """Share a split's documents out evenly, cutting shards and batches where needed.

    Raises:
        DataError: when there are more readers than documents, unless there are none at all.
    """
    total = entry["num_documents"]
    if 0 < total < num_readers:
        raise DataError(
            f"{num_readers} readers for {total} documents: some would have nothing to read",
            next_step="use fewer readers (processes times DataLoader workers)",
        )
    bounds = [reader * total // num_readers for reader in range(num_readers + 1)]
    batches = list(_batches(entry["shards"]))
    ends = np.cumsum([one.last for one in batches], dtype=np.int64)
    return [_cut(batches, ends, *span) for span in pairwise(bounds)]


def _batches(shards: list[dict[str, Any]]) -> Iterator[Piece]:
    """All record batches of a split, whole."""
    for shard in shards:
        starts, num_documents = shard["batches"]["start"], shard["batches"]["num_documents"]
        for (start, end), rows in zip(pairwise([*starts, shard["size_bytes"]]), num_documents, strict=True):
            yield Piece(shard["file"], start, end - start, 0, rows)


def _cut(batches: list[Piece], ends: np.ndarray[Any, np.dtype[np.int64]], first: int, last: int) -> Part:
    """The documents ``[first, last)`` of the split."""
    pieces = []
    at = int(np.searchsorted(ends, first, side="right"))
    while first < last:
        whole, end = batches[at], int(ends[at])
        begin = end - whole.last
        pieces.append(Piece(whole.file, whole.start, whole.size_bytes, first - begin, min(last, end) - begin))
        first, at = end, at + 1
    return tuple(pieces)


def _tables(parts: list[Part], root: UPath, schema: pa.Schema) -> Iterator[tuple[Any, pa.Table]]:
    """Arrow tables of some readers' parts, as ``datasets`` asks for them, each under a key of its own."""
    for reader, part in enumerate(parts):
        for number, piece in enumerate(part):
            with (root / piece.file).open("rb") as file:
                file.seek(piece.start)
                batch = pa.ipc.read_record_batch(pa.py_buffer(file.read(piece.size_bytes)), schema)
            rows = batch.slice(piece.first, piece.last - piece.first)
            yield (reader, number), pa.Table.from_batches([rows])
