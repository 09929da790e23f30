"""Writes the tokens of one split as shard files of a fixed number of tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from upath import UPath

from tasks.lm.token_shards import DOCUMENTS
from tasks.shards.spool import Spool, Stored

BUFFER_TOKENS = 2**20
"""Tokens gathered in memory between two writes."""


class ShardWriter:
    """Appends tokens to ``<folder>/shard-00000.bin`` and on; every shard but the last holds ``shard_tokens``."""

    def __init__(self, folder: UPath, shard_tokens: int) -> None:
        self.folder, self.shard_tokens = folder, shard_tokens
        self.entries: list[dict[str, Any]] = []
        """``{"file", "num_tokens"}`` of each shard, as the index holds them."""
        self._file: Any = None
        folder.mkdir(parents=True, exist_ok=True)

    def append(self, tokens: Stored) -> None:
        """Add tokens; a document may go on in the next shard."""
        done = 0
        while done < len(tokens):
            if self._file is None or self.entries[-1]["num_tokens"] == self.shard_tokens:
                self._open_next()
            part = tokens[done : done + self.shard_tokens - self.entries[-1]["num_tokens"]]
            self._file.write(part.tobytes())
            self.entries[-1]["num_tokens"] += len(part)
            done += len(part)

    def _open_next(self) -> None:
        self.close()
        name = f"shard-{len(self.entries):05d}.bin"
        self.entries.append({"file": f"{self.folder.name}/{name}", "num_tokens": 0})
        self._file = (self.folder / name).open("wb")

    def close(self) -> None:
        """Finish the last shard."""
        if self._file is not None:
            self._file.close()
            self._file = None


def write_split(spool: Spool, rows: pa.Table, folder: UPath, shard_tokens: int) -> dict[str, Any]:
    """Write the documents of one split in the order of ``rows``; returns the split's entry of the index."""
    writer = ShardWriter(folder, shard_tokens)
    gathered: list[Stored] = []
    num_gathered = 0
    for start, length in zip(rows["start"].to_pylist(), rows["num_tokens"].to_pylist(), strict=True):
        gathered.append(spool.tokens[start : start + length])
        num_gathered += length
        if num_gathered >= BUFFER_TOKENS:
            writer.append(np.concatenate(gathered))
            gathered, num_gathered = [], 0
    if gathered:
        writer.append(np.concatenate(gathered))
    writer.close()
    _write_rows(rows, folder / DOCUMENTS)
    return {
        "shards": writer.entries,
        "num_tokens": pc.sum(rows["num_tokens"], min_count=0).as_py(),
        "num_documents": rows.num_rows,
        "num_bytes": pc.sum(rows["num_bytes"], min_count=0).as_py(),
    }


def _write_rows(rows: pa.Table, path: UPath) -> None:
    ends = np.cumsum(rows["num_tokens"].to_numpy(), dtype=np.int64)
    offsets = pa.array(ends - rows["num_tokens"].to_numpy())
    table = rows.drop_columns(["split", "start"]).append_column("offset", offsets)
    with path.open("wb") as file:
        pq.write_table(table, file, compression="zstd")
