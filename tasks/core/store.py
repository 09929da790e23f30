"""Where artifacts live, and the one operation that makes them safe: publishing a record exclusively.

    <store>/<stage>/<key>/<attempt>/…          what an attempt wrote, under its own name
    <store>/<stage>/<key>/records/<n>.json     published once, never overwritten; the highest n wins
    <store>/<stage>/<key>/workspace/           what a long stage keeps between attempts
    <store>/<stage>/<key>/unreachable          garbage collection's mark; whoever uses the artifact takes it away

A reader starts at a record, so it can only ever see an attempt that was complete when its record appeared.
Another kind of store has to bring four things: :meth:`Store.create`, :meth:`Store.locked`, :meth:`Store.sweep` and a
clock of its own, :meth:`Store.now`.
"""

from __future__ import annotations

import json
import os
import platform
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from upath import UPath

from tasks.core.errors import ConfigError
from tasks.core.lease import LEASE, Lease, alone_in, newest_generation

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
    """
    path = UPath(root or os.environ.get("HEADRACE_STORE") or VAR / "store")
    if path.protocol not in ("", "file", "local"):
        raise ConfigError(f"no such kind of store: {path}", ["known: a path on a local disk, or file:///…"])
    if path.exists() and not path.is_dir():
        raise ConfigError(f"the store {path} is not a folder", next_step="set HEADRACE_STORE to a folder")
    return Store(path.absolute())


class Store:
    """Artifacts on a local disk (or one that is mounted and keeps POSIX ``link`` and ``flock``)."""

    def __init__(self, root: UPath) -> None:
        self.root = root

    def artifact(self, stage: str, key: str) -> UPath:
        """Folder of all attempts and records of one key; its text is the artifact's URI."""
        return self.root / stage / key

    def new_attempt(self, stage: str, key: str) -> UPath:
        """An empty folder under a name no other attempt has."""
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        folder = self.artifact(stage, key) / f"{now}-{secrets.token_hex(4)}"
        folder.mkdir(parents=True)
        return folder

    def attempts(self, artifact: UPath) -> list[UPath]:
        """All attempts at an artifact that left a folder, oldest first."""
        return sorted((one for one in artifact.iterdir() if ATTEMPT_NAME.fullmatch(one.name)), key=str)

    def discard(self, folder: UPath) -> None:
        """Remove a folder that no record names."""
        shutil.rmtree(local(folder), ignore_errors=True)

    def workspace(self, stage: str, key: str) -> UPath:
        """The folder of a key that outlives its attempts."""
        return self.artifact(stage, key) / WORKSPACE

    def record_numbers(self, artifact: UPath) -> list[int]:
        """Numbers of the records of an artifact, rising."""
        folder = artifact / RECORDS
        if not folder.is_dir():
            return []
        return sorted(int(path.stem) for path in folder.glob("*.json") if path.stem.isdigit())

    def read_record(self, artifact: UPath, number: int) -> dict[str, Any]:
        """One record as it was published."""
        record: dict[str, Any] = json.loads((artifact / RECORDS / f"{number}.json").read_text("utf-8"))
        return record

    def artifacts(self, stage: str) -> list[UPath]:
        """All artifacts of a stage that have a record."""
        folder = self.root / stage
        found = sorted(folder.iterdir(), key=str) if folder.is_dir() else []
        return [one for one in found if self.record_numbers(one)]

    def create(self, path: UPath, data: bytes) -> None:
        """Write a file that appears whole, durably and only if nobody was first.

        Written under a private name and synced, then linked to its own: ``link`` fails on an existing name, which
        ``rename`` would silently replace.

        Raises:
            FileExistsError: somebody else was first; nothing was changed.
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

    @contextmanager
    def locked(self, stage: str, key: str) -> Iterator[Lease]:
        """Hold a key's only lock, waiting for it if need be, as the next generation of its holders."""
        artifact = self.artifact(stage, key)
        with alone_in(local(artifact)):
            yield self._next_lease(artifact)

    def _next_lease(self, artifact: UPath) -> Lease:
        folder = artifact / LEASE
        lease = Lease(folder.path, newest_generation(local(folder)) + 1)
        holder = {"host": platform.node(), "process": os.getpid(), "at": datetime.now(UTC).isoformat()}
        self.create(folder / f"{lease.generation}.json", json.dumps(holder).encode())
        (folder / f"{lease.generation - 1}.json").unlink(missing_ok=True)
        return lease

    def now(self) -> float:
        """The store's own clock, in seconds: what it says of a file that is written now."""
        folder = local(self.root)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".clock-") as file:
            return self.modified(UPath(file.name))

    def modified(self, path: UPath) -> float:
        """When a file was last written or touched, in seconds of the store's clock.

        Raises:
            FileNotFoundError: it is not there.
        """
        return float(path.stat().st_mtime)

    def touch(self, path: UPath) -> None:
        """Let a file be as old as the store's clock says now.

        Raises:
            FileNotFoundError: it is not there; it is not made.
        """
        os.utime(local(path))

    def in_use(self, artifact: UPath) -> None:
        """Keep an artifact from being swept; to be called before its files are looked at (see :meth:`sweep`)."""
        (artifact / UNREACHABLE).unlink(missing_ok=True)

    def sweep(self, artifact: UPath) -> bool:
        """Remove a whole artifact that is marked as unreachable; says whether it did.

        It stays when somebody works on it, or took the mark away. It is first moved out of every reader's sight: a
        reader takes the mark away before it looks at the files, so either the mark is missed here and all is put
        back, or the reader finds nothing. One sweep at a time.
        """
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


def local(path: UPath) -> Path:
    """A path of a local store as a plain :class:`pathlib.Path`."""
    return Path(path.path)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: UPath) -> None:
    """Make everything below a folder durable, files before the folders that name them."""
    for current, _, files in os.walk(local(folder), topdown=False):
        for name in files:
            descriptor = os.open(Path(current) / name, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_folder(Path(current))


@contextmanager
def local_copy(artifact: UPath) -> Iterator[Path]:
    """An artifact's files as a folder on the local disk, for libraries that want real paths.

    A local artifact is lent as it is and must not be changed; another is copied to a temporary folder.
    """
    if artifact.protocol in ("", "file", "local"):
        yield local(artifact)
        return
    with tempfile.TemporaryDirectory() as name:
        for source in artifact.rglob("*"):
            if source.is_file():
                target = Path(name, *source.parts[len(artifact.parts) :])
                target.parent.mkdir(parents=True, exist_ok=True)
                with source.open("rb") as read, target.open("wb") as write:
                    shutil.copyfileobj(read, write)
        yield Path(name)


@contextmanager
def local_output(out: UPath) -> Iterator[Path]:
    """A folder on the local disk whose files end up in ``out``; nothing is copied when the block raises."""
    if out.protocol in ("", "file", "local"):
        local(out).mkdir(parents=True, exist_ok=True)
        yield local(out)
        return
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)
        for source in Path(name).rglob("*"):
            if source.is_file():
                target = out.joinpath(*source.relative_to(name).parts)
                with suppress(FileExistsError):
                    target.parent.mkdir(parents=True)
                with source.open("rb") as read, target.open("wb") as write:
                    shutil.copyfileobj(read, write)
