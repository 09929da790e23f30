"""What a reader yields: a row with its columns, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

EXCERPT_CHARS = 80


@dataclass(frozen=True)
class Row:
    """One row of a file, before it is known to be a document."""

    position: int
    """Line or row number, from 1."""
    values: dict[str, Any]


@dataclass(frozen=True)
class Malformed:
    """A row that cannot become a document."""

    position: int
    reason: str
    excerpt: str


def malformed(position: int, reason: str, content: object) -> Malformed:
    """A malformed row with the beginning of what was found there, safe to print and to write."""
    if isinstance(content, bytes):
        content = content[: 4 * EXCERPT_CHARS].decode("utf-8", errors="backslashreplace")
    text = content if isinstance(content, str) else repr(content)
    shown = text[:EXCERPT_CHARS].encode("utf-8", errors="backslashreplace").decode("utf-8")
    return Malformed(position, reason, shown)
