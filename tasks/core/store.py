"""Where artifacts live, and the one operation that makes them safe: publishing a record exclusively.

    <store>/<stage>/<key>/<attempt>/…          what an attempt wrote, under its own name
    <store>/<stage>/<key>/records/<n>.json     published once, never overwritten; the highest n wins
    <store>/<stage>/<key>/workspace/           what a long stage keeps between attempts (a remote store keeps it here)
    <store>/<stage>/<key>/unreachable          garbage collection's mark; whoever uses the artifact takes it away

A reader starts at a record, so it can only ever see an attempt that was complete when its record appeared.
What the kinds of store do differently are the methods of :class:`Store` that it leaves open. The local kind is here,
S3 and HDFS are in :mod:`tasks.core.remote_store`.
"""

from __future__ import annotations

import json
import os
import platform
import re
import secrets
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from upath import UPath

from tasks.core.errors import ConfigError
from tasks.core.lease import LEASE, Lease, alone_in, newest_generation
from tasks.core.location import LOCAL, is_local, local, modified, names_in

REPOSITORY = Path(__file__).parents[2]
VAR = REPOSITORY / "var"
"""All local state; ignored by git, removed by ``make clean``."""
WORKSPACE = "workspace"
RECORDS = "records"
UNREACHABLE = "unreachable"
COLLECTOR = ".gc"
"""Where garbage collection locks, and puts what it removes out of everybody's sight first."""
ATTEMPT_NAME = re.compile(r"\d{8}T\d{6}-[0-9a-f]{8}")


def open_store(root: str | None = None) -> Store:
    """The store at ``root``, else at ``HEADRACE_STORE``, else under ``var/``.

    Raises:
        ConfigError: for a kind of store that is not known, or a root that is a file.
        ServiceError: a remote store does not answer, or refuses us.
    """
    path = UPath(root or os.environ.get("HEADRACE_STORE") or VAR / "store")
    if path.protocol not in (*LOCAL, "s3", "hdfs"):
        known = ["known: a path on a local disk, file:///…, s3://bucket/prefix, hdfs://name-node/path"]
        raise ConfigError(f"no such kind of store: {path}", known)
    if not is_local(path):
        from tasks.core.remote_store import open_remote

        return open_remote(path)
    if path.exists() and not path.is_dir():
        raise ConfigError(f"the store {path} is not a folder", next_step="set HEADRACE_STORE to a folder")
    return LocalStore(path.absolute())


@dataclass(frozen=True)
class Leftover:
    """Something a writer left that died, outside of any attempt."""

    path: UPath
    kind: str
    size_bytes: int
    began: float
    """By the store's clock."""
    upload_id: str = ""
    """Of an upload to S3 that was not finished."""


class Store(ABC):
    """Artifacts below one root."""

    def __init__(self, root: UPath) -> None:
        self.root = root

    def artifact(self, stage: str, key: str) -> UPath:
        """Folder of all attempts and records of one key; its text is the artifact's URI."""
        return self.root / stage / key

    def new_attempt(self, stage: str, key: str) -> UPath:
        """An empty folder under a name no other attempt has."""
        folder = self.artifact(stage, key) / attempt_name()
        folder.mkdir(parents=True)
        return folder

    def attempts(self, artifact: UPath) -> list[UPath]:
        """All attempts at an artifact that left a folder, oldest first."""
        return [artifact / name for name in names_in(artifact) if ATTEMPT_NAME.fullmatch(name)]

    def record_numbers(self, artifact: UPath) -> list[int]:
        """Numbers of the records of an artifact, rising."""
        stems = [name.removesuffix(".json") for name in names_in(artifact / RECORDS) if name.endswith(".json")]
        return sorted(int(stem) for stem in stems if stem.isdigit())

    def read_record(self, artifact: UPath, number: int) -> dict[str, Any]:
        """One record as it was published."""
        record: dict[str, Any] = json.loads((artifact / RECORDS / f"{number}.json").read_text("utf-8"))
        return record

    def artifacts(self, stage: str) -> list[UPath]:
        """All artifacts of a stage that have a record."""
        folder = self.root / stage
        return [one for name in names_in(folder) if self.record_numbers(one := folder / name)]

    def in_use(self, artifact: UPath) -> None:
        """Keep an artifact from being swept; to be called before its files are looked at (see :meth:`sweep`)."""
        (artifact / UNREACHABLE).unlink(missing_ok=True)

    def modified(self, path: UPath) -> float:
        """When a file was last written or touched, in seconds of the store's clock.

        Raises:
            FileNotFoundError: it is not there.
        """
        return modified(path)

    @abstractmethod
    def workspace(self, stage: str, key: str) -> Path:
        """The folder of a key that outlives its attempts, on a local disk."""

    @abstractmethod
    def create(self, path: UPath, data: bytes) -> None:
        """Write a file that appears whole, durably and only if nobody was first.

        Raises:
            FileExistsError: somebody else was first; nothing was changed.
        """

    @abstractmethod
    def make_durable(self, folder: UPath) -> None:
        """Make everything below a folder survive a loss of power, files before the folders that name them."""

    @abstractmethod
    def discard(self, folder: UPath) -> None:
        """Remove a folder that no record names; what is not there is removed already."""

    @abstractmethod
    def locked(self, stage: str, key: str) -> AbstractContextManager[Lease]:
        """Hold a key's only lock, waiting for it if need be, as the next generation of its holders."""

    @abstractmethod
    def alone(self, folder: UPath) -> AbstractContextManager[None]:
        """Hold the lock of a folder, which may be a key's.

        Raises:
            BlockingIOError: somebody else holds it.
        """

    @abstractmethod
    def now(self) -> float:
        """The store's own clock, in seconds: what it says of a file that is written now."""

    @abstractmethod
    def touch(self, path: UPath) -> None:
        """Let a file be as old as the store's clock says now.

        Raises:
            FileNotFoundError: it is not there; it is not made.
        """

    @abstractmethod
    def leftovers(self) -> list[Leftover]:
        """What writers left outside of attempts, or may be at work on; of any age."""

    @abstractmethod
    def remove_leftover(self, leftover: Leftover) -> None:
        """Remove one of :meth:`leftovers`; what is gone is gone."""

    @abstractmethod
    def sweep(self, artifact: UPath) -> bool:
        """Remove a whole artifact that is marked as unreachable; says whether it did.

        It stays when somebody works on it, or took the mark away. It is first taken out of every reader's sight: a
        reader takes the mark away before it looks at the files, so either the mark is missed here and all is put
        back, or the reader finds nothing. One sweep at a time.
        """


class LocalStore(Store):
    """Artifacts on a local disk (or one that is mounted and keeps POSIX ``link`` and ``flock``)."""

    def workspace(self, stage: str, key: str) -> Path:
        return local(self.artifact(stage, key)) / WORKSPACE

    def create(self, path: UPath, data: bytes) -> None:
        """Written under a private name and synced, then linked to its own: ``link`` fails on an existing name, which
        ``rename`` would silently replace.
        """
        target = local(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        private = target.parent / f".{target.name}.{secrets.token_hex(8)}"
        try:
            with private.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(private, target)
        finally:
            private.unlink(missing_ok=True)
        sync_folder(target.parent)

    def make_durable(self, folder: UPath) -> None:
        for current, _, files in os.walk(local(folder), topdown=False):
            for name in files:
                descriptor = os.open(Path(current) / name, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
            sync_folder(Path(current))

    def discard(self, folder: UPath) -> None:
        shutil.rmtree(local(folder), ignore_errors=True)

    @contextmanager
    def locked(self, stage: str, key: str) -> Iterator[Lease]:
        artifact = self.artifact(stage, key)
        with alone_in(local(artifact)):
            yield self._next_lease(artifact)

    def _next_lease(self, artifact: UPath) -> Lease:
        folder = artifact / LEASE
        lease = Lease(str(folder), newest_generation(folder) + 1)
        self.create(folder / f"{lease.generation}.json", holder())
        (folder / f"{lease.generation - 1}.json").unlink(missing_ok=True)
        return lease

    def alone(self, folder: UPath) -> AbstractContextManager[None]:
        return alone_in(local(folder), wait=False)

    def now(self) -> float:
        folder = local(self.root)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".clock-") as file:
            return self.modified(UPath(file.name))

    def touch(self, path: UPath) -> None:
        os.utime(local(path))

    def leftovers(self) -> list[Leftover]:
        found = []
        for path in local(self.root).glob(f"*/*/{RECORDS}/.*"):
            with suppress(FileNotFoundError):
                about = path.stat()
                found.append(Leftover(UPath(path), "an unpublished record", about.st_size, about.st_mtime))
        return found

    def remove_leftover(self, leftover: Leftover) -> None:
        leftover.path.unlink(missing_ok=True)

    def sweep(self, artifact: UPath) -> bool:
        folder, aside = local(artifact), local(self.root) / COLLECTOR / f"{artifact.parent.name}-{artifact.name}"
        aside.parent.mkdir(exist_ok=True)
        shutil.rmtree(aside, ignore_errors=True)  # of a sweep that was killed
        try:
            with alone_in(folder, wait=False):
                folder.rename(aside)
                if not (aside / UNREACHABLE).exists():
                    aside.rename(folder)
                    return False
        except BlockingIOError:
            return False
        shutil.rmtree(aside)
        return True


def attempt_name() -> str:
    """A name no other attempt has, in the order of their beginnings."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def holder() -> bytes:
    """Who holds a lease, for people who wonder; no two are the same."""
    told = {"host": platform.node(), "process": os.getpid(), "at": datetime.now(UTC).isoformat()}
    return json.dumps({**told, "token": secrets.token_hex(8)}).encode()


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
