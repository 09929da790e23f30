"""Stores on S3 and HDFS: the same protocol as on a local disk, on what those two promise.

    <store>/.tmp/<random>     written whole before it is renamed, or to ask the store for the time

Neither has a lock that is freed when its holder dies. A holder gives signs of life instead, by the store's clock; one
that gave none for :data:`TTL_S` has lost its lease to the next who wants it, and learns so before it publishes.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from upath import UPath

from tasks.core import store_errors
from tasks.core.errors import ConfigError
from tasks.core.heartbeat import beating
from tasks.core.lease import LEASE, Lease, newest_generation
from tasks.core.location import names_in
from tasks.core.store import RECORDS, UNREACHABLE, VAR, WORKSPACE, Leftover, Store, attempt_name, holder

TEMPORARY = ".tmp"
RELEASED = ".released"
TTL_S = 60.0
"""Four missed signs of life."""
POLL_S = 2.0
PRECONDITION = ("PreconditionFailed", "412")
CONFLICT = "ConditionalRequestConflict"
CONFLICTS = 5
"""How often S3 may ask to try again because another write of the same name is under way."""


def open_remote(root: UPath) -> RemoteStore:
    """The store at a remote root, after a look whether it answers and lets us read.

    Raises:
        ConfigError: the root has no bucket, or is a file.
        ServiceError: it does not answer in time, or refuses us.
    """
    store: RemoteStore = S3Store(root) if root.protocol == "s3" else HdfsStore(root)
    with store_errors.told(root):
        store_errors.within_time(store.look, root)
    return store


class RemoteStore(Store):
    """What S3 and HDFS have in common."""

    @abstractmethod
    def look(self) -> None:
        """Fail if the store is not there, or is not a folder."""

    def workspace(self, stage: str, key: str) -> Path:
        """On a disk of this machine, in ``HEADRACE_SCRATCH``: training writes checkpoints at a local disk's speed."""
        scratch = Path(os.environ.get("HEADRACE_SCRATCH") or VAR / "scratch")
        place = hashlib.sha256(str(self.root).encode()).hexdigest()[:16]
        return scratch / place / stage / key / WORKSPACE

    def make_durable(self, folder: UPath) -> None:
        """What a remote store acknowledged is durable."""

    def discard(self, folder: UPath) -> None:
        with suppress(FileNotFoundError):
            folder.fs.rm(folder.path, recursive=True)

    @contextmanager
    def locked(self, stage: str, key: str) -> Iterator[Lease]:
        held = self._held(self.artifact(stage, key) / LEASE, wait=True)
        with held as lease, store_errors.watched(self.look, self.root):
            yield lease

    @contextmanager
    def alone(self, folder: UPath) -> Iterator[None]:
        with self._held(folder / LEASE, wait=False):
            yield

    @contextmanager
    def _held(self, folder: UPath, *, wait: bool) -> Iterator[Lease]:
        lease = self._taken(folder, wait=wait)
        sign = folder / f"{lease.generation}.json"
        try:
            with beating(self, sign):
                yield lease
        finally:
            self._release(folder, lease)

    def _taken(self, folder: UPath, *, wait: bool) -> Lease:
        said = False
        while True:
            generation = newest_generation(folder)
            is_free = generation == 0 or self._is_free(folder, generation)
            if is_free and (lease := self._next(folder, generation)):
                return lease
            if not wait:
                raise BlockingIOError(f"somebody holds {folder}")
            if not said:
                sys.stderr.write(f"waiting for {folder.parent}, which somebody works on\n")
                said = True
            time.sleep(POLL_S)

    def _next(self, folder: UPath, generation: int) -> Lease | None:
        """The generation after one that is free; None when another was faster."""
        lease, sign = Lease(str(folder), generation + 1), folder / f"{generation + 1}.json"
        try:
            self.create(sign, holder())
        except FileExistsError:
            return None
        if (
            newest_generation(folder) > lease.generation
        ):  # others came and went since we looked: the name was free again
            sign.unlink(missing_ok=True)
            return None
        for name in (f"{generation}.json", f"{generation}{RELEASED}"):
            (folder / name).unlink(missing_ok=True)
        return lease

    def _is_free(self, folder: UPath, generation: int) -> bool:
        if f"{generation}{RELEASED}" in names_in(folder):
            return True
        try:
            return self.now() - self.modified(folder / f"{generation}.json") >= TTL_S
        except FileNotFoundError:  # the next has taken it this moment
            return False

    def _release(self, folder: UPath, lease: Lease) -> None:
        """Give a lease back, unless another has taken it. One that cannot be given back is free in a minute."""
        with suppress(Exception):
            if newest_generation(folder) == lease.generation:
                self.create(folder / f"{lease.generation}{RELEASED}", b"")

    def sweep(self, artifact: UPath) -> bool:
        """Records go first, so that no reader finds the artifact, and come back if the mark is gone by then."""
        try:
            lease = self._taken(artifact / LEASE, wait=False)
        except BlockingIOError:
            return False
        with beating(self, artifact / LEASE / f"{lease.generation}.json"):
            records = [artifact / RECORDS / name for name in names_in(artifact / RECORDS)]
            kept = {path: path.read_bytes() for path in records}
            for path in records:
                path.unlink(missing_ok=True)
            if (artifact / UNREACHABLE).exists():
                self.discard(artifact)
                return True
            for path, data in kept.items():
                self.create(path, data)
            self._release(artifact / LEASE, lease)
        return False

    @contextmanager
    def _temporary(self, data: bytes) -> Iterator[UPath]:
        """A file of this store that nobody else knows, for the time of a block."""
        path = self.root / TEMPORARY / secrets.token_hex(8)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.write_bytes(data)
            yield path
        finally:
            path.unlink(missing_ok=True)

    def now(self) -> float:
        with self._temporary(b"") as path:
            return self.modified(path)

    def leftovers(self) -> list[Leftover]:
        found = []
        for name in names_in(self.root / TEMPORARY):
            path = self.root / TEMPORARY / name
            with suppress(FileNotFoundError):
                found.append(Leftover(path, "a temporary file", path.stat().st_size, self.modified(path)))
        return found

    def remove_leftover(self, leftover: Leftover) -> None:
        leftover.path.unlink(missing_ok=True)

    def _must_be_ours(self, path: UPath, data: bytes) -> None:
        """A name is taken. It was this very call when the same bytes stand there: its answer was lost, and what sends
        requests tried again. What is gone by now was another's.
        """
        with suppress(FileNotFoundError):
            if path.read_bytes() == data:
                return
        raise FileExistsError(str(path))


class S3Store(RemoteStore):
    """S3, or what speaks its protocol and honours ``If-None-Match``."""

    def look(self) -> None:
        bucket, _, prefix = self.root.path.partition("/")
        self._call("list_objects_v2", Bucket=bucket, Prefix=f"{prefix.strip('/')}/".lstrip("/"), MaxKeys=1)
        if prefix.strip("/") and self.root.fs.isfile(self.root.path):
            raise ConfigError(f"the store {self.root} is an object, not a folder", next_step="set HEADRACE_STORE anew")

    def _call(self, method: str, **arguments: Any) -> Any:
        return self.root.fs.call_s3(method, **arguments)

    def new_attempt(self, stage: str, key: str) -> UPath:
        """An object store makes a folder when something is put in it."""
        return self.artifact(stage, key) / attempt_name()

    def create(self, path: UPath, data: bytes) -> None:
        """``If-None-Match: *``: the store itself refuses a name that is there."""
        for turn in range(CONFLICTS):
            try:
                path.fs.pipe_file(path.path, data, mode="create")
                return
            except OSError as error:
                code = store_errors.code_of(error)
                if code in PRECONDITION or isinstance(error, FileExistsError):
                    self._must_be_ours(path, data)
                    return
                if code != CONFLICT or turn == CONFLICTS - 1:
                    raise
            time.sleep(0.1 * 2**turn)

    def touch(self, path: UPath) -> None:
        """A copy onto itself: the store gives it a new time, and refuses when it is gone."""
        bucket, _, key = path.path.partition("/")
        source = {"Bucket": bucket, "Key": key}
        self._call("copy_object", Bucket=bucket, Key=key, CopySource=source, MetadataDirective="REPLACE")

    def discard(self, folder: UPath) -> None:
        for upload in self.uploads(folder):
            self.remove_leftover(upload)
        super().discard(folder)

    def uploads(self, folder: UPath) -> list[Leftover]:
        """Multipart uploads below a folder that were begun and neither finished nor given up. Their parts are stored,
        and paid for, and seen by nobody.
        """
        bucket, _, prefix = folder.path.partition("/")
        asked: dict[str, Any] = {"Bucket": bucket, "Prefix": f"{prefix.strip('/')}/".lstrip("/")}
        found: list[Leftover] = []
        while True:
            page = self._call("list_multipart_uploads", **asked)
            for one in page.get("Uploads") or []:
                path = UPath(f"s3://{bucket}") / one["Key"]
                began = one["Initiated"].timestamp()
                found.append(Leftover(path, "an unfinished upload", 0, began, one["UploadId"]))
            if not page.get("IsTruncated"):
                return found
            asked |= {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}

    def leftovers(self) -> list[Leftover]:
        return [*super().leftovers(), *self.uploads(self.root)]

    def remove_leftover(self, leftover: Leftover) -> None:
        if not leftover.upload_id:
            super().remove_leftover(leftover)
            return
        bucket, _, key = leftover.path.path.partition("/")
        with suppress(FileNotFoundError):
            self._call("abort_multipart_upload", Bucket=bucket, Key=key, UploadId=leftover.upload_id)


class HdfsStore(RemoteStore):
    """HDFS, by the name node's word that a rename without overwriting fails on an existing name."""

    def look(self) -> None:
        with suppress(FileNotFoundError):
            if not self.root.fs.isdir(self.root.path) and self.root.fs.exists(self.root.path):
                raise ConfigError(f"the store {self.root} is a file, not a folder", next_step="set HEADRACE_STORE anew")

    def create(self, path: UPath, data: bytes) -> None:
        """Written whole under a name of its own, then renamed, which takes no time and no other's name."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._temporary(data) as private:
            try:
                path.fs.mv(private.path, path.path, overwrite=False)
            except FileExistsError:
                self._must_be_ours(path, data)

    def touch(self, path: UPath) -> None:
        now_ms = round(1000 * self.now())
        path.fs.client.set_times(path.path, now_ms, now_ms)
