"""Token shards as a Hugging Face dataset."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from datasets import Dataset
from numpy.lib.stride_tricks import sliding_window_view

from tasks.lm.token_shards import TokenShards

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
    return Dataset(pa.table({"input_ids": pa.chunked_array(chunks, type=row)}))


def _chunk(shards: TokenShards, first: int, last: int, sequence_length: int, row: pa.DataType) -> pa.Array:
    """Samples ``[first, last)``; neighbours share one token, so a row starts every ``sequence_length`` tokens."""
    tokens = shards.window(first * sequence_length, (last - first) * sequence_length + 1)
    rows = sliding_window_view(tokens, sequence_length + 1)[::sequence_length]
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1), row.value_type), type=row)
