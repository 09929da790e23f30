"""Writes the tokens of one split as shard files that no document crosses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from upath import UPath

from tasks.lm.shard_file import BATCH_TOKENS, Lengths, Stored, even_runs, runs_of_at_most, write_shard
from tasks.lm.token_shards import DOCUMENTS
from tasks.shards.spool import Spool


def write_split(
    spool: Spool, rows: pa.Table, folder: UPath, shard_tokens: int, num_shards: int | None = None
) -> dict[str, Any]:
    """Write the documents of one split in the order of ``rows``; returns the split's entry of the index.

    The shards hold ``shard_tokens`` at most, or there are exactly ``num_shards`` of them. A split without documents
    still has a shard, of no rows, so that a reader finds its schema.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lengths = rows["num_tokens"].to_numpy()
    runs = even_runs(lengths, num_shards) if num_shards else runs_of_at_most(lengths, shard_tokens) or [slice(0, 0)]
    shards = []
    for number, run in enumerate(runs):
        path = folder / f"shard-{number:05d}.arrow"
        with path.open("wb") as file:
            entry = write_shard(file, spool.tokens.dtype, _batches(spool, rows[run]))
        shards.append({"file": f"{folder.name}/{path.name}", **entry})
    _write_rows(rows, folder / DOCUMENTS)
    return {
        "shards": shards,
        "num_tokens": pc.sum(rows["num_tokens"], min_count=0).as_py(),
        "num_documents": rows.num_rows,
        "num_bytes": pc.sum(rows["num_bytes"], min_count=0).as_py(),
    }


def _batches(spool: Spool, rows: pa.Table) -> Iterator[tuple[Stored, Lengths]]:
    """The documents of one shard, as many at a time as fill a record batch."""
    starts, lengths = (rows[name].to_numpy() for name in ("start", "num_tokens"))
    for run in runs_of_at_most(lengths, BATCH_TOKENS):
        spans = zip(starts[run].tolist(), lengths[run].tolist(), strict=True)
        yield np.concatenate([spool.tokens[start : start + length] for start, length in spans]), lengths[run]


def _write_rows(rows: pa.Table, path: UPath) -> None:
    ends = np.cumsum(rows["num_tokens"].to_numpy(), dtype=np.int64)
    offsets = pa.array(ends - rows["num_tokens"].to_numpy())
    table = rows.drop_columns(["split", "start"]).append_column("offset", offsets)
    with path.open("wb") as file:
        pq.write_table(table, file, compression="zstd")
