"""One file of any format as rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from tasks.core.errors import DataError
from tasks.ingest.encodings import detect_encoding, sample_of
from tasks.ingest.files import SourceFile, opened
from tasks.ingest.html import declared_encoding, page_text
from tasks.ingest.jsonl import read_jsonl
from tasks.ingest.parquet import parquet_columns, read_parquet
from tasks.ingest.rows import Malformed, Row, malformed

WHOLE = ("text", "html")
"""Formats in which a file is one document."""


@dataclass(frozen=True)
class Opened:
    """A file that is being read."""

    encoding: str
    """How its bytes become text; ``parquet`` for Parquet, ``empty`` for a file of no bytes."""
    columns: list[str] | None
    """The columns it has, where the file itself says so."""
    rows: Iterator[Row | Malformed]


def read_file(file: SourceFile, columns: list[str], max_bytes: int) -> Opened:
    """Read one file. ``columns`` are those wanted of Parquet; other formats give all they have.

    The rows raise DataError when the file cannot be read at all (cut, or not what its name says).
    """
    if file.size_bytes == 0:
        # A text file is a document, here an empty one; a table without a byte has no rows.
        rows = [Row(1, {"text": ""})] if file.format in WHOLE else []
        return Opened("empty", None, iter(rows))
    try:
        if file.format == "parquet":
            with opened(file) as stream:
                known = parquet_columns(stream)
            return Opened("parquet", known, _rows(file, "parquet", columns, max_bytes))
        with opened(file) as stream:
            encoding = detect_encoding(sample_of(stream))
    except (OSError, pa.ArrowException) as error:
        raise _told(file, error) from error
    return Opened(encoding, None, _rows(file, encoding, columns, max_bytes))


def _rows(file: SourceFile, encoding: str, columns: list[str], max_bytes: int) -> Iterator[Row | Malformed]:
    try:
        with opened(file) as stream:
            if file.format == "parquet":
                yield from read_parquet(stream, columns)
            elif file.format == "jsonl":
                yield from read_jsonl(stream, encoding, max_bytes)
            else:
                yield _whole(stream, encoding, file.format, max_bytes)
    except (OSError, pa.ArrowException) as error:
        raise _told(file, error) from error


def _whole(stream: BinaryIO, encoding: str, kind: str, max_bytes: int) -> Row | Malformed:
    """A file that is one document."""
    content = stream.read(max_bytes + 1)
    if len(content) > max_bytes:
        return malformed(1, "too_large", content)
    declared = declared_encoding(content) if kind == "html" and encoding == "utf-8" else ""
    for codec in filter(None, (encoding, declared)):
        try:
            text = content.decode(codec)
        except UnicodeDecodeError:
            continue
        if kind == "html":
            title, text = page_text(text)
            return Row(1, {"text": text, "title": title})
        return Row(1, {"text": text})
    return malformed(1, "undecodable", content)


def _told(file: SourceFile, error: Exception) -> Exception:
    """The error for a file that is cut or not of its format; what the system itself refuses stays as it is."""
    if isinstance(error, OSError) and error.errno is not None:
        return error
    return DataError(
        f"cannot read {file.path} as {file.format}: {error}",
        subject=str(file.path),
        next_step="repair or remove the file, or set the source's format",
    )
