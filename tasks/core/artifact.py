"""What an artifact is called, what its record says, and how its content is digested."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

from upath import UPath

from tasks.core import documents
from tasks.core.config import canonical_json
from tasks.core.errors import DataError
from tasks.core.location import PIECE_BYTES, files_below, names_in
from tasks.core.store import RECORDS, Store

REPORT = "report"
"""Folder of an artifact that describes it and stays outside the content digest."""
KEY_CHARS = 24
"""96 bits: among a million artifacts of a stage the chance of any collision is below 1e-16."""
READERS = 4
"""Files that are read at the same time for their digests."""
KEY = re.compile(f"[0-9a-f]{{{KEY_CHARS}}}")


@dataclass(frozen=True)
class Identity:
    """All that decides what a stage makes. Its digest is the artifact's key."""

    stage: str
    version: int
    knobs: dict[str, Any]
    inputs: dict[str, str]
    """Content digest of each input."""
    fingerprint: dict[str, Any] | None = None
    """What the stage saw outside the store, for stages that look there."""

    @property
    def key(self) -> str:
        return hashlib.sha256(canonical_json(asdict(self)).encode()).hexdigest()[:KEY_CHARS]


@dataclass(frozen=True)
class File:
    """One file of an attempt; ``path`` is relative to the attempt's folder."""

    path: str
    size: int
    sha256: str


def is_outside(path: str) -> bool:
    """Whether a path in a record, which may be of a store that somebody else writes, leads out of its attempt."""
    name = PurePosixPath(path)
    return name.is_absolute() or ".." in name.parts


@dataclass(frozen=True)
class Record:
    """Everything worth knowing about one artifact: what it was made from, by what, and what it is."""

    identity: Identity
    attempt: str
    content_digest: str
    files: list[File]
    result: dict[str, Any]
    measured: dict[str, Any] = field(default_factory=dict)
    """What depended on the machine: seconds, rates. Outside every digest."""
    config: dict[str, Any] = field(default_factory=dict)
    """All knobs, the runtime ones too."""
    inputs: dict[str, str] = field(default_factory=dict)
    """URI of each input."""
    made: dict[str, Any] = field(default_factory=dict)
    """When, on what machine, with which libraries, from which commit and source, for which run."""

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), ensure_ascii=False, indent=1, allow_nan=False).encode("utf-8")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Record:
        return cls(
            **{
                **values,
                "identity": Identity(**values["identity"]),
                "files": [File(**one) for one in values["files"]],
            }
        )


@dataclass(frozen=True)
class Artifact:
    """A published artifact: a record and where it lies."""

    uri: str
    record: Record
    number: int

    @property
    def path(self) -> UPath:
        """Folder with the files of the attempt that won."""
        return UPath(self.uri) / self.record.attempt

    @property
    def size_bytes(self) -> int:
        """Bytes of all files, by the record."""
        return sum(file.size for file in self.record.files)


def newest(store: Store, artifact: UPath) -> Artifact | None:
    """The artifact that the highest record of a key names, or None."""
    numbers = store.record_numbers(artifact)
    if not numbers:
        return None
    return Artifact(str(artifact), Record.from_json(store.read_record(artifact, numbers[-1])), numbers[-1])


def published(store: Store, uri: str) -> Artifact:
    """The newest artifact at a URI, whole or not.

    Raises:
        DataError: when there is none.
    """
    found = newest(store, UPath(uri))
    if found is None:
        raise DataError(f"there is no artifact at {uri}", subject=uri, next_step="run the stage that makes it")
    return found


def find(store: Store, uri: str) -> Artifact:
    """The artifact at a URI, to be used: garbage collection leaves it alone for a day at least.

    Raises:
        DataError: when there is none, or some of its files are gone or have another size.
    """
    store.in_use(UPath(uri))
    found = published(store, uri)
    if lost := altered(found):
        raise DataError(f"{uri} is damaged: {', '.join(lost)}", subject=uri, next_step="run the stage that makes it")
    return found


def altered(artifact: Artifact) -> list[str]:
    """What is wrong with an artifact's files as far as sizes tell; cheap enough to ask before every use."""
    there = files_below(artifact.path)
    return [problem for file in artifact.record.files if (problem := wrong_size(file, there))]


def wrong_size(file: File, there: Mapping[str, int]) -> str | None:
    """Says that a file is gone or has another size than its record says; None when it has not."""
    if file.path not in there:
        return f"{file.path} is gone"
    size = there[file.path]
    return None if size == file.size else f"{file.path} has {size} bytes instead of {file.size}"


def key_folders(store: Store) -> Iterator[UPath]:
    """Every folder of a store that is named by stage and key, published or not."""
    for stage in names_in(store.root):
        yield from (store.root / stage / name for name in names_in(store.root / stage) if KEY.fullmatch(name))


def name_of(uri: str) -> str:
    """``stage/key`` of an artifact's URI, or of a path inside it, wherever its store lay when that was written.

    Raises:
        DataError: when there is no key in it.
    """
    for stage, key in reversed([*pairwise(uri.split("/"))]):
        if KEY.fullmatch(key):
            return f"{stage}/{key}"
    raise DataError(f"{uri} is not an artifact's URI", subject=uri, next_step="python -m tasks list shows them")


def names_of(uris: Iterable[str]) -> Iterator[str]:
    """``stage/key`` of each URI that has one; any other names nothing in any store."""
    for uri in uris:
        with suppress(DataError):
            yield name_of(uri)


def publish(store: Store, record: Record, *, after: int, adopt: bool) -> Artifact:
    """Publish an attempt as record ``after + 1`` of its key, ``after`` being the newest when the attempt began.

    When another attempt took that number, ``adopt`` decides: take its artifact and drop this attempt, or publish
    under the next free number (for a forced run or a check, whose own outcome is wanted).
    """
    artifact = store.artifact(record.identity.stage, record.identity.key)
    number = after + 1
    while True:
        try:
            store.create(artifact / RECORDS / f"{number}.json", record.to_json())
        except FileExistsError:
            winner = newest(store, artifact)
            assert winner is not None
            if adopt and not altered(winner):
                if winner.record.attempt != record.attempt:
                    store.discard(artifact / record.attempt)
                return winner
            number = winner.number + 1
        else:
            return Artifact(str(artifact), record, number)


def is_published(store: Store, artifact: UPath, attempt: str) -> bool:
    """Whether a record of the artifact names this attempt."""
    return any(store.read_record(artifact, number)["attempt"] == attempt for number in store.record_numbers(artifact))


def files_of(attempt: UPath) -> list[File]:
    """Every file below an attempt with its size and digest, in path order. Bytes are read back from the store."""
    sizes = sorted(files_below(attempt).items())
    with ThreadPoolExecutor(READERS) as pool:
        digests = pool.map(lambda one: file_digest(attempt / one[0]), sizes)
        return [File(path, size, digest) for (path, size), digest in zip(sizes, digests, strict=True)]


def file_digest(path: UPath) -> str:
    """SHA-256 of a file's bytes, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def copy_digested(source: UPath, target: UPath | Path) -> str:
    """Copy a file and give the SHA-256 of the bytes on their way.

    Raises:
        FileNotFoundError: it is gone.
    """
    digest = hashlib.sha256()
    with source.open("rb") as read, target.open("wb") as write:
        while piece := read.read(PIECE_BYTES):
            digest.update(piece)
            write.write(piece)
    return digest.hexdigest()


def content_digest(attempt: UPath, files: list[File]) -> str:
    """Digest of what an attempt holds: canonical rows for documents, bytes for everything else but the report."""
    listed = [
        [file.path, file.sha256] for file in files if not file.path.startswith((f"{REPORT}/", f"{documents.FOLDER}/"))
    ]
    rows = documents.rows_digest(attempt) if (attempt / documents.FOLDER).is_dir() else None
    return hashlib.sha256(canonical_json([listed, rows]).encode()).hexdigest()
