"""Parquet: only the columns that are asked for, one small batch in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.ingest.rows import Malformed, Row, malformed

BATCH_ROWS = 256


def parquet_columns(stream: BinaryIO) -> list[str]:
    """Names of the columns of a file."""
    return list(pq.ParquetFile(stream).schema_arrow.names)


def read_parquet(stream: BinaryIO, columns: list[str]) -> Iterator[Row | Malformed]:
    """The rows of a file with the given columns (those it has)."""
    file = pq.ParquetFile(stream)
    known = [name for name in columns if name in file.schema_arrow.names]
    position = 0
    for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=known):
        values = {name: _values(column) for name, column in zip(batch.schema.names, batch.columns, strict=True)}
        for number in range(batch.num_rows):
            position += 1
            yield _row(position, {name: column[number] for name, column in values.items()})


def _values(column: pa.Array) -> list[Any]:
    """Python values; strings as bytes, since a Parquet string may hold bytes that are no UTF-8."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        column = column.cast(pa.large_binary())
    elif pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    values: list[Any] = column.to_pylist()
    return values


def _row(position: int, values: dict[str, Any]) -> Row | Malformed:
    try:
        return Row(position, {name: v.decode() if isinstance(v, bytes) else v for name, v in values.items()})
    except UnicodeDecodeError as error:
        return malformed(position, "undecodable", error.object)
