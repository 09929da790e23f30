"""Brings the shards of a split from a remote store onto this machine's disk, several files at a time."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from upath import UPath

from tasks.lm.token_shards import DOCUMENTS, INDEX, TokenShards, read_index, split_entry

CHUNK_BYTES = 2**23
"""What one thread holds in memory of a file."""


def fetch_split(folder: UPath, split: str, into: Path, *, workers: int = 8) -> TokenShards:
    """Copy one split into a local folder and open it there; files that are there in full are not fetched again.

    The index is copied last, so a folder that has one is whole.

    Raises:
        DataError: when there is no index, no such split, or a fetched file is not of the size that the index says.
    """
    shards = split_entry(read_index(folder), folder, split)["shards"]
    wanted = {shard["file"]: shard["size_bytes"] for shard in shards} | {f"{split}/{DOCUMENTS}": None}
    (into / split).mkdir(parents=True, exist_ok=True)
    missing = [name for name, size in wanted.items() if not _is_there(into / name, size)]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(partial(_fetch, folder, into), missing))
    _fetch(folder, into, INDEX)
    return TokenShards(into, split)


def _is_there(path: Path, size_bytes: int | None) -> bool:
    return path.is_file() and size_bytes in (None, path.stat().st_size)


def _fetch(folder: UPath, into: Path, name: str) -> None:
    """Copy one file under another name and then give it its own, so that a file is whole or not there."""
    target = into / name
    unfinished = target.with_name(f"{target.name}.part")
    with (folder / name).open("rb") as source, unfinished.open("wb") as sink:
        shutil.copyfileobj(source, sink, CHUNK_BYTES)
    unfinished.replace(target)
