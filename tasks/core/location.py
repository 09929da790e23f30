"""Paths of every kind of store, and what is asked of a folder whatever lies behind it.

Everybody who touches a path imports this module, so that ``s3:`` and ``hdfs:`` are the file systems we mean: S3 without
remembered listings, which would hide what others wrote, and with bounded patience; HDFS without a JVM.
"""

from __future__ import annotations

import os
from pathlib import Path

import fsspec  # type: ignore[import-untyped]
import upath.registry
from fsspec.config import conf  # type: ignore[import-untyped]
from upath import UPath

LOCAL = ("", "file", "local")
"""Protocols of a path on a local disk."""
PIECE_BYTES = 16 << 20
"""Of a file that is read or written over the network: what is in memory of it. S3 allows 10,000 of them to a file."""
CONNECT_S, ANSWER_S = 5, 20
"""How long one request to S3 waits; s3fs makes five of them, with growing pauses, before it gives up."""

S3_OPTIONS = {
    "use_listings_cache": False,
    "default_block_size": PIECE_BYTES,
    "config_kwargs": {
        "connect_timeout": CONNECT_S,
        "read_timeout": ANSWER_S,
        "retries": {"max_attempts": 1, "mode": "standard"},
    },
}
conf["s3"] = {**S3_OPTIONS, **conf.get("s3", {})}
fsspec.register_implementation("hdfs", "tasks.core.hdfs.HdfsFileSystem", clobber=True)
upath.registry.register_implementation("hdfs", "tasks.core.hdfs.HdfsPath", clobber=True)


def is_local(path: UPath) -> bool:
    """Whether a path lies on a local disk, or one that is mounted."""
    return path.protocol in LOCAL


def local(path: UPath) -> Path:
    """A path on a local disk as a plain :class:`pathlib.Path`."""
    assert is_local(path), f"{path} is not on a local disk"
    return Path(path.path)


def names_in(folder: UPath) -> list[str]:
    """Names of what lies directly in a folder, rising; none when it is not there.

    A folder is known by what is in it: an object store has no others.
    """
    try:
        if is_local(folder):
            return sorted(one.name for one in Path(folder.path).iterdir())
        found = folder.fs.ls(folder.path, detail=False)
    except (FileNotFoundError, NotADirectoryError):
        return []
    itself = folder.path.rstrip("/")
    return sorted(name.rstrip("/").rsplit("/", 1)[-1] for name in found if name.rstrip("/") != itself)


def files_below(folder: UPath) -> dict[str, int]:
    """Size in bytes of every file below a folder by its path relative to that; one that goes meanwhile is left out."""
    if is_local(folder):
        return _local_files_below(Path(folder.path))
    base = folder.path.rstrip("/") + "/"
    try:
        found = folder.fs.find(folder.path, detail=True)
    except FileNotFoundError:
        return {}
    return {
        name.removeprefix(base): int(about["size"])
        for name, about in sorted(found.items())
        if about["type"] == "file" and name.startswith(base) and not name.endswith("/")
    }


def _local_files_below(folder: Path) -> dict[str, int]:
    found = {}
    for current, _, names in os.walk(folder):
        for name in names:
            path = Path(current, name)
            try:
                found[path.relative_to(folder).as_posix()] = path.lstat().st_size
            except FileNotFoundError:
                continue
    return found


def modified(path: UPath) -> float:
    """When a file was last written or touched, in seconds of the clock of where it lies.

    An object store's folder is as old as the newest file in it.

    Raises:
        FileNotFoundError: it is not there.
    """
    if is_local(path):
        return Path(path.path).stat().st_mtime
    about = path.fs.info(path.path)
    if "modification_time" in about:  # HDFS, in milliseconds; its folders have one too
        return float(about["modification_time"]) / 1000
    if about["type"] == "file":
        return float(about["LastModified"].timestamp())
    files = [one for one in path.fs.find(path.path, detail=True).values() if one["type"] == "file"]
    return max((float(one["LastModified"].timestamp()) for one in files), default=0.0)
