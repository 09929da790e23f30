"""The files of a source: which there are, and how each is read."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, cast

from upath import UPath

from tasks.core.errors import ConfigError, NothingNew
from tasks.core.location import is_local
from tasks.ingest.config import PARTITION, IngestConfig, Source

ENDINGS = {
    "jsonl": (".jsonl", ".ndjson"),
    "parquet": (".parquet", ".pq"),
    "text": (".txt", ".text", ".md", ".rst"),
    "html": (".html", ".htm", ".xhtml"),
}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


@dataclass(frozen=True)
class SourceFile:
    """One file of a source."""

    path: UPath
    name: str
    """Path relative to the source's folder: the same wherever the folder lies."""
    size_bytes: int
    format: str
    partition: str = ""
    """Name of the partition it belongs to, of a source that has partitions."""


def all_files(config: IngestConfig) -> dict[str, list[SourceFile]]:
    """The files of every source, by its name. A source with partitions may have none of those asked for.

    Raises:
        ConfigError: naming every source that has no file, or whose partition is not told.
        NothingNew: none of the sources with partitions has one of those asked for.
    """
    found, problems = {}, []
    for number, source in enumerate(config.sources):
        try:
            found[source.name] = partitions_of(source, config) if PARTITION in source.path else files_of(source)
        except ValueError as error:
            problems.append(f"ingest.sources[{number}].path: {error} (source {source.name!r})")
    if problems:
        raise ConfigError("sources cannot be read", problems)
    partitioned = [source for source in config.sources if PARTITION in source.path]
    if partitioned and not any(found[source.name] for source in partitioned):
        raise nothing_new(config, partitioned)
    return dict(sorted(found.items()))


def nothing_new(config: IngestConfig, partitioned: list[Source]) -> NothingNew:
    asked = f"{config.partition}, nor one since {config.since}" if config.since else config.partition
    return NothingNew(
        f"there is no partition {asked} under {', '.join(source.path for source in partitioned)}",
        subject=config.partition,
        next_step="see whether what writes the partitions has run; then run this again",
    )


def partitions_of(source: Source, config: IngestConfig) -> list[SourceFile]:
    """The files of the partitions asked for, partition by partition; a file's name begins with its partition's.

    Raises:
        ValueError: when no partition is asked for, or a file's format cannot be told from its name.
    """
    if not config.partition:
        raise ValueError(
            f"{source.path!r} has partitions, and none is asked for; give the run a "
            "partition key, or set ingest.partition"
        )
    parts = source.path.split("/")
    place = next(number for number, part in enumerate(parts) if PARTITION in part)
    folder = UPath("/".join(parts[:place]) or ("/" if source.path.startswith("/") else "."))
    before, after = parts[place].split(PARTITION)
    found = []
    for entry in sorted(folder.iterdir(), key=lambda one: one.name) if folder.is_dir() else []:
        partition = entry.name.removeprefix(before).removesuffix(after)
        named = entry.name == f"{before}{partition}{after}" and not _is_hidden(entry.name)
        if named and is_asked_for(partition, config):
            path = "/".join([*parts[:place], entry.name, *parts[place + 1 :]])
            files = files_of(replace(source, path=path), or_none=True)
            found += [replace(one, name=f"{entry.name}/{one.name}", partition=partition) for one in files]
    return found


def is_asked_for(partition: str, config: IngestConfig) -> bool:
    """Whether a partition is the one asked for, or came after ``since`` and before it."""
    return partition == config.partition or config.since < partition < config.partition


def files_of(source: Source, *, or_none: bool = False) -> list[SourceFile]:
    """The files of a source in the order of their names; files with a hidden part in their name are left out.

    A file or glob is read as the source's format whatever its name; a folder gives the files whose names end
    as that format's do.

    Raises:
        ValueError: when nothing is there (unless that is allowed), or a file's format cannot be told from its name.
    """
    path = UPath(source.path)
    if path.is_file():
        found = [(path, path.name)]
    elif path.is_dir():
        found = [(one, _relative(one, path)) for one in path.rglob("*") if one.is_file()]
        found = [(one, name) for one, name in found if _is_wanted(name, source.format)]
    else:
        root, pattern = split_glob(source.path)
        found = [(one, _relative(one, root)) for one in root.glob(pattern) if one.is_file()] if pattern else []
    visible = sorted(((one, name) for one, name in found if not _is_hidden(name)), key=lambda pair: pair[1])
    if not visible and not or_none:
        kind = "" if source.format == "auto" else f"{source.format} "
        raise ValueError(f"no {kind}file at {source.path!r}")
    return [SourceFile(one, name, one.stat().st_size, _format(name, source)) for one, name in visible]


def split_glob(path: str) -> tuple[UPath, str]:
    """The folder before the first wildcard, and the pattern from there; the pattern is empty without a wildcard."""
    parts = path.split("/")
    first = next((number for number, part in enumerate(parts) if set(part) & set("*?[")), len(parts))
    root = "/".join(parts[:first])
    return UPath(root or ("/" if path.startswith("/") else ".")), "/".join(parts[first:])


def _relative(path: UPath, root: UPath) -> str:
    return path.relative_to(root).as_posix()


def _is_hidden(name: str) -> bool:
    # "_SUCCESS" and its like are how Spark and Hadoop mark a folder; a dot is how Unix hides.
    return any(part.startswith((".", "_")) for part in name.split("/"))


def _is_wanted(name: str, wanted: str) -> bool:
    told = format_by_name(name)
    return told != "" if wanted == "auto" else told == wanted


def format_by_name(name: str) -> str:
    """The format that a file's name tells by its ending, else an empty text."""
    bare = name.lower()
    for ending in COMPRESSIONS:
        bare = bare.removesuffix(ending)
    return next((kind for kind, endings in ENDINGS.items() if bare.endswith(endings)), "")


def _format(name: str, source: Source) -> str:
    if source.format != "auto":
        return source.format
    if told := format_by_name(name):
        return told
    raise ValueError(f"the format of {name!r} cannot be told from its name; set the source's format")


@contextmanager
def opened(file: SourceFile) -> Iterator[BinaryIO]:
    """The file's bytes as a stream, decompressed when its name ends in .gz or .zst."""
    codec = next((codec for ending, codec in COMPRESSIONS.items() if file.name.lower().endswith(ending)), None)
    with file.path.open("rb") as raw:
        if file.format == "parquet" or (codec is None and is_local(file.path)):
            yield raw
        elif codec is None:  # what a remote file lacks is a readline that can be told where to stop
            with io.BufferedReader(cast(Any, raw), 2**20) as buffered:
                yield cast(BinaryIO, buffered)
        else:
            import pyarrow as pa  # here, because a fingerprint needs no pyarrow

            # The stream of pyarrow reads blocks; the buffer gives it readline.
            with pa.CompressedInputStream(raw, codec) as stream, io.BufferedReader(stream, 2**20) as buffered:
                yield cast(BinaryIO, buffered)


def sha256_of(path: UPath) -> str:
    """SHA-256 of a file, read once in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()
