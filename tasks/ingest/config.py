"""What can be turned when files become documents."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from string import Formatter
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from tasks.core.config import KIND, Config, pinned

PARTITION = "{partition}"
"""In a source's path: the folder or part of a name that says which partition a file belongs to."""

Format = Literal["auto", "jsonl", "parquet", "text", "html"]


def _date_as_text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value  # YAML reads 2026-11-30 as a date


Partition = Annotated[str, BeforeValidator(_date_as_text), Field(max_length=100, pattern=r"^[^/{}*?\[\]]*$")]


def columns_of(template: str) -> list[str]:
    """The columns a template names, in order and without repeats.

    Raises:
        ValueError: for braces that do not match, an empty name, a conversion or a format.
    """
    names = []
    for _, name, spec, conversion in Formatter().parse(template):
        if name is None:
            continue
        if not name or spec or conversion or set(name) & set(".[]"):
            raise ValueError("a template holds only plain column names in braces, like {en}")
        names.append(name)
    return list(dict.fromkeys(names))


def _template(value: str) -> str:
    if value and not columns_of(value):
        raise ValueError("a template names at least one column, like {en}")
    return value


def _partitioned(path: str) -> str:
    before, *after = path.split(PARTITION)
    if len(after) > 1 or (after and set(before) & set("*?[")):
        raise ValueError(f"a path has {PARTITION} at most once, and no wildcard before it")
    return path


@dataclass(frozen=True, kw_only=True)
class Source(Config):
    """One origin of text: some files of one format, under one name."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    """Name of the source; every document carries it, and reports are told by it."""
    path: Annotated[str, Field(min_length=1), AfterValidator(_partitioned)] = field(metadata={KIND: "runtime"})
    """A file, a folder (with all below it) or a glob, local or a URL; relative paths start at the current directory.
    Outside the identity: what is read enters by the digest of each file. With {partition} in it, as in
    "incoming/{partition}/*.jsonl", only the partitions asked for are read."""
    format: Format = "auto"
    """How to read the files; auto goes by the ending of each name."""
    text_column: Annotated[str, Field(min_length=1)] = "text"
    """Column that holds the text (JSONL and Parquet)."""
    template: Annotated[str, AfterValidator(_template)] = ""
    """Makes the text from several columns, as in "English: {en}"; they are kept in meta. Replaces text_column."""
    meta_columns: tuple[str, ...] = ()
    """More columns to keep in meta."""
    id_column: str = ""
    """Column with a key of the row that never changes; without it, a row is told by its file and position."""


def _different_names(sources: tuple[Source, ...]) -> tuple[Source, ...]:
    twice = [name for name, count in Counter(one.name for one in sources).items() if count > 1]
    if twice:
        raise ValueError(f"two sources have the same name: {', '.join(twice)}")
    return sources


@dataclass(frozen=True, kw_only=True)
class IngestConfig(Config):
    """Read files of several formats into documents."""

    sources: Annotated[tuple[Source, ...], Field(min_length=1), AfterValidator(_different_names)]
    """Where the text comes from."""
    partition: Partition = pinned("")
    """Which partition to read, as its name stands in the paths: a date in a nightly run, which fills it in. Names are
    compared as texts, so they must sort as they follow each other: 2026-11-30, not 30.11.2026."""
    since: Partition = pinned("")
    """Partitions after this one and before the one asked for are read too. A nightly run fills in the champion's: what
    a night brought that was not kept, or that had no run, is new to the next one."""
    num_shards: Annotated[int, Field(gt=0, le=100_000)] = 4
    """Number of Parquet shards; later stages work on as many shards at once as they have workers."""
    max_malformed_share: Annotated[float, Field(ge=0, le=1)] = 0.01
    """Largest share of a source's rows that may be malformed before the stage fails; below it they are counted."""
    max_document_bytes: Annotated[int, Field(gt=0)] = 256 * 2**20
    """A larger line or file counts as malformed; it bounds the memory one document can take."""
