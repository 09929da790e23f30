"""JSON Lines: one object a line, in any of the encodings of this stage."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from tasks.ingest.encodings import WIDE
from tasks.ingest.rows import Malformed, Row, malformed


def read_jsonl(stream: BinaryIO, encoding: str, max_bytes: int) -> Iterator[Row | Malformed]:
    """The rows of a stream; empty lines are no rows. Holds one line in memory, never more than ``max_bytes`` of it."""
    lines = _wide_lines(stream, encoding, max_bytes) if encoding in WIDE else _byte_lines(stream, max_bytes)
    for position, line in enumerate(lines, start=1):
        if isinstance(line, Malformed):
            yield Malformed(position, line.reason, line.excerpt)
        elif row := _row(position, line, encoding):
            yield row


def _byte_lines(stream: BinaryIO, max_bytes: int) -> Iterator[bytes | Malformed]:
    while line := stream.readline(max_bytes + 1):
        if len(line) <= max_bytes:
            yield line
            continue
        yield malformed(0, "too_large", line)
        while line and not line.endswith(b"\n"):
            line = stream.readline(2**20)


def _wide_lines(stream: BinaryIO, encoding: str, max_bytes: int) -> Iterator[str | Malformed]:
    # Lone surrogates pass here and are found with the others, in the text they stand in.
    text = io.TextIOWrapper(stream, encoding=encoding, errors="surrogatepass", newline="\n")
    max_chars = max_bytes // 2
    try:
        while line := text.readline(max_chars + 1):
            if len(line) <= max_chars:
                yield line
                continue
            yield malformed(0, "too_large", line)
            while line and not line.endswith("\n"):
                line = text.readline(2**20)
    except UnicodeDecodeError as error:
        # Half a code unit: only a cut file ends so, and nothing can be read after it.
        yield malformed(0, "undecodable", error.object[error.start :])
    finally:
        text.detach()  # else the wrapper closes the stream, which is the caller's


def _row(position: int, line: bytes | str, encoding: str) -> Row | Malformed | None:
    if not line.strip():
        return None
    try:
        # utf-8-sig drops a mark at the start of any line, and there is one on the first.
        text = line if isinstance(line, str) else line.decode(encoding)
    except UnicodeDecodeError:
        return malformed(position, "undecodable", line)
    try:
        # pandas writes NaN where a column of numbers has no value: it is null.
        value: Any = json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return malformed(position, "bad_json", line)
    return Row(position, value) if isinstance(value, dict) else malformed(position, "not_an_object", line)
