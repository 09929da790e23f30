"""Rows as the bytes of a file, the same bytes for the same rows."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, str]


def json_lines(rows: Iterable[Row]) -> bytes:
    """Rows as JSON lines in UTF-8."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def gzipped(data: bytes) -> bytes:
    """Gzip without name or time, so that the same rows make the same bytes."""
    return gzip.compress(data, compresslevel=9, mtime=0)


def zstandard(data: bytes) -> bytes:
    """One Zstandard frame."""
    return pa.Codec("zstd", compression_level=19).compress(data, asbytes=True)  # type: ignore[no-any-return]


def parquet(rows: list[Row]) -> bytes:
    """Rows as one Parquet file of string columns."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink, compression="zstd", row_group_size=64)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]
