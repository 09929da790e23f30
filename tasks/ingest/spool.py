"""Rows on their way to shards: kept on local disk, so that memory holds one shard and not the corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from upath import UPath

from tasks.core import documents
from tasks.core.errors import DataError

FLUSH_CHARS = 16 * 2**20


class Spool:
    """Collects rows of the documents' schema, one Arrow file for each shard."""

    def __init__(self, folder: Path, num_shards: int, closing: ExitStack) -> None:
        self._paths = [folder / f"{shard:05d}.arrow" for shard in range(num_shards)]
        self._closing = closing
        self._writers = [closing.enter_context(pa.ipc.new_stream(str(path), documents.SCHEMA)) for path in self._paths]
        self._rows: list[list[dict[str, Any]]] = [[] for _ in range(num_shards)]
        self._chars = 0

    def add(self, row: dict[str, Any]) -> None:
        """Take one row; its shard follows from its id."""
        self._rows[documents.shard_number(row["id"], len(self._paths))].append(row)
        self._chars += len(row["text"])
        if self._chars >= FLUSH_CHARS:
            self._flush()

    def _flush(self) -> None:
        for writer, rows in zip(self._writers, self._rows, strict=True):
            if rows:
                writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=documents.SCHEMA))
                rows.clear()
        self._chars = 0

    def write_documents(self, out: UPath) -> None:
        """Write all shards, one at a time. Nothing can be added afterwards.

        Raises:
            DataError: when two rows have the same id.
        """
        self._flush()
        self._closing.close()
        for shard, path in enumerate(self._paths):
            with pa.memory_map(str(path)) as file:
                table = pa.ipc.open_stream(file).read_all()
                _refuse_repeated(table)
                documents.write_shard(out, shard, table)


def _refuse_repeated(table: pa.Table) -> None:
    """Two rows can only have one id when the source's own key and the text are the same twice."""
    counts = Counter(table["id"].to_pylist())
    repeated = {one for one, count in counts.items() if count > 1}
    if repeated:
        row = next(row for row in table.select(["id", "source", "meta"]).to_pylist() if row["id"] in repeated)
        raise DataError(
            f"source {row['source']!r} gives the same key to two equal texts ({len(repeated)} times), "
            f"for one at {row['meta'][:200]}",
            next_step="set the source's id_column to a column without repeats, or leave it empty",
        )


@contextmanager
def spooling(num_shards: int) -> Iterator[Spool]:
    """A spool in a temporary folder that is removed afterwards."""
    with TemporaryDirectory(prefix="headrace-ingest-") as folder, ExitStack() as closing:
        yield Spool(Path(folder), num_shards, closing)
