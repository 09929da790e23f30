"""Artifacts on the local disk, for libraries that want real paths, and back.

    <cache>/blobs/<sha256>       files of remote artifacts, by content; the least recently used go first
    <cache>/views/<random>/…     one artifact as a folder, of links to blobs, for as long as somebody reads it

A file is on its way from the store only once, and it is digested on the way and again before every later use: what a
library reads is what the record says. How many links a blob has says whether somebody reads it, so nothing that is read
is ever removed. The cache is in ``HEADRACE_CACHE`` and holds at most ``HEADRACE_CACHE_GB``.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from upath import UPath

from tasks.core import events
from tasks.core.artifact import File, Record, copy_digested, file_digest, is_outside
from tasks.core.errors import ConfigError, DataError, ServiceError
from tasks.core.location import files_below, is_local, local, names_in
from tasks.core.store import RECORDS, VAR

CACHE_GB = 20.0
TRANSFERS = 8
"""Files on their way at the same time, each with :data:`tasks.core.location.PIECE_BYTES` in memory."""
BLOBS, VIEWS, LOCK = "blobs", "views", ".lock"
GIGABYTE, MEGABYTE = 1e9, 1e6


def cache_folder() -> Path:
    """Where the files of remote artifacts are kept on this machine."""
    return Path(os.environ.get("HEADRACE_CACHE") or VAR / "cache")


def cache_bytes() -> float:
    """How much of them is kept at most.

    Raises:
        ConfigError: the variable is not a number above zero.
    """
    told = os.environ.get("HEADRACE_CACHE_GB") or str(CACHE_GB)
    try:
        size = float(told) * GIGABYTE
    except ValueError:
        size = math.nan
    if not size > 0:
        raise ConfigError(f"HEADRACE_CACHE_GB must be a number above zero (got {told!r})", next_step="set it anew")
    return size


@contextmanager
def local_copy(artifact: UPath) -> Iterator[Path]:
    """An artifact's files as a folder on the local disk, which must not be changed.

    A local artifact is lent as it is. A remote one is fetched, several files at a time, unless the cache has them.

    Raises:
        DataError: a file is gone, or has other bytes than its record says.
        ServiceError: it does not fit into the cache.
    """
    if is_local(artifact):
        yield local(artifact)
        return
    files = files_of_record(artifact)
    cache = cache_folder()
    with viewed(cache) as view:
        make_room(cache, files, artifact)
        with ThreadPoolExecutor(TRANSFERS) as pool:
            done, total = 0, sum(file.size for file in files)
            for size in pool.map(lambda file: linked(cache, artifact, file, view), files):
                done += size
                events.progress(done / MEGABYTE, total / MEGABYTE, "MB")
        yield view


def files_of_record(artifact: UPath) -> list[File]:
    """What the record that names an attempt says of its files.

    Raises:
        DataError: no record names it, or one of its files would lie outside of it.
    """
    folder = artifact.parent / RECORDS
    for name in names_in(folder):
        record = Record.from_json(json.loads((folder / name).read_text("utf-8")))
        if record.attempt == artifact.name:
            if any(is_outside(file.path) for file in record.files):
                raise DataError(f"the record of {artifact} names files outside of it", subject=str(artifact))
            return record.files
    raise DataError(f"no record names {artifact}", subject=str(artifact), next_step="run the stage that makes it")


@contextmanager
def viewed(cache: Path) -> Iterator[Path]:
    """A folder of links for the time of a block. Those of processes that died are removed first."""
    folder = cache / VIEWS / secrets.token_hex(8)
    folder.parent.mkdir(parents=True, exist_ok=True)
    (cache / BLOBS).mkdir(exist_ok=True)
    remove_dead_views(cache)
    with folder.with_suffix(LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            folder.with_suffix(LOCK).unlink(missing_ok=True)


def remove_dead_views(cache: Path) -> None:
    """Remove the views that no process holds any more; the kernel frees a lock however its holder ends."""
    for lock in (cache / VIEWS).glob(f"*{LOCK}"):
        with suppress(FileNotFoundError, BlockingIOError), lock.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if lock.with_suffix("").is_dir():  # else its owner has not come to make it
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                lock.unlink(missing_ok=True)


def make_room(cache: Path, files: Sequence[File], artifact: UPath) -> None:
    """Remove what was not used for the longest time and is not read now, until an artifact fits.

    Raises:
        ServiceError: it does not fit.
    """
    blobs = {path.name: path.stat() for path in (cache / BLOBS).iterdir() if "." not in path.name}
    wanted = {file.sha256: file.size for file in files}
    held = sum(about.st_size for about in blobs.values())
    needed = held + sum(size for digest, size in wanted.items() if digest not in blobs) - cache_bytes()
    unused = [name for name, about in blobs.items() if about.st_nlink == 1 and name not in wanted]
    for name in sorted(unused, key=lambda name: blobs[name].st_mtime):
        if needed <= 0:
            return
        (cache / BLOBS / name).unlink(missing_ok=True)
        needed -= blobs[name].st_size
    if needed > 0:
        raise ServiceError(
            f"{artifact} needs {needed / MEGABYTE:,.0f} MB more than the cache {cache} may hold",
            subject=str(artifact),
            next_step=f"set HEADRACE_CACHE_GB (now {cache_bytes() / GIGABYTE:g}) to more, HEADRACE_CACHE to a disk "
            "that has it",
        )


def linked(cache: Path, artifact: UPath, file: File, view: Path) -> int:
    """Give a view one of its files, from the cache or from the store; its size in bytes.

    Raises:
        DataError: it is gone, or has other bytes than its record says.
    """
    blob, target = cache / BLOBS / file.sha256, view / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        os.link(blob, target)
        if file_digest(UPath(target)) == file.sha256:
            os.utime(blob)
            return file.size
        blob.unlink(missing_ok=True)  # the disk of this machine altered it
        target.unlink()
    fetch(artifact, file, target)
    with suppress(FileExistsError):  # another process was first
        os.link(target, blob)
    return file.size


def fetch(artifact: UPath, file: File, target: Path) -> None:
    """Bring one file from the store, digested on the way.

    Raises:
        DataError: it is gone, or has other bytes than its record says.
    """
    try:
        digest = copy_digested(artifact / file.path, target)
    except FileNotFoundError:
        raise damaged(artifact, f"{file.path} is gone") from None
    if digest != file.sha256:
        raise damaged(artifact, f"{file.path} has other bytes than its record says")


def damaged(artifact: UPath, problem: str) -> DataError:
    return DataError(
        f"{artifact} is damaged: {problem}", subject=str(artifact), next_step="run the stage that makes it"
    )


@contextmanager
def local_output(out: UPath) -> Iterator[Path]:
    """A folder on the local disk whose files end up in ``out``; nothing is copied when the block raises."""
    if is_local(out):
        local(out).mkdir(parents=True, exist_ok=True)
        yield local(out)
        return
    with tempfile.TemporaryDirectory(prefix="headrace-") as name:
        yield Path(name)
        files = sorted(files_below(UPath(name)))
        with ThreadPoolExecutor(TRANSFERS) as pool:
            for _ in pool.map(lambda file: out.fs.put_file(str(Path(name, file)), (out / file).path), files):
                pass
