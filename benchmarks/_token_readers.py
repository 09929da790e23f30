"""The same tokens in three forms, and the ways to read them in batches of 8 samples of 257 tokens, for two benchmarks.

Ours draws samples in a random order over all of them. ``datasets`` gets the same samples, cut to their length
beforehand: at random from Arrow files through torch's ``DataLoader``, and as a stream, one after the other, which
spares it a shuffle. All end with an ``int64`` tensor of shape ``(8, 257)``.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from _lifecycle import artifacts
from datasets import IterableDataset, load_dataset
from upath import UPath

from tasks.lm.token_shards import INDEX, TokenShards, sample_order
from tasks.shards.spool import Spool
from tasks.shards.writer import write_split

LENGTH, BATCH, NUM_FILES = 256, 8, 8
"""A sample has ``LENGTH`` inputs and one more token as the last target."""

Batches = Iterator[torch.Tensor]


def write_ours(folder: UPath, copies: int) -> float:
    """The sample's training documents so many times, as our writer stores them; returns the tokens a second."""
    once = TokenShards(artifacts("shards")["shards"].path, "train")
    rows = once.documents.rename_columns({"offset": "start"})
    rows = pa.concat_tables([rows] * copies).append_column("split", pa.array(["train"] * (rows.num_rows * copies)))
    spool = Spool(once.window(0, once.num_tokens).astype(once.dtype), rows)
    started = time.perf_counter()
    entry = write_split(spool, rows, folder / "train", 2**24, NUM_FILES)
    seconds = time.perf_counter() - started
    index = json.loads((once.folder / INDEX).read_text("utf-8")) | {"splits": {"train": entry}}
    (folder / INDEX).write_text(json.dumps(index))
    return once.num_tokens * copies / seconds


def sample_tables(shards: TokenShards) -> Iterator[pa.Table]:
    """The samples as rows of one length, in as many tables as there are to be files."""
    edges = [number * shards.num_samples(LENGTH) // NUM_FILES for number in range(NUM_FILES + 1)]
    for first, last in pairwise(edges):
        ids = shards.samples(np.arange(first, last), LENGTH).astype(shards.dtype)
        yield pa.table({"input_ids": pa.FixedSizeListArray.from_arrays(pa.array(ids.reshape(-1)), LENGTH + 1)})


def write_parquet(shards: TokenShards, folder: UPath) -> None:
    """The samples as Parquet files."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(sample_tables(shards)):
        with (folder / f"{number:05d}.parquet").open("wb") as file:
            pq.write_table(table, file, row_group_size=4096)


def write_arrow(shards: TokenShards, folder: UPath) -> None:
    """The samples as Arrow streams, which ``datasets`` maps into memory when they are on a disk."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(sample_tables(shards)):
        with (folder / f"{number:05d}.arrow").open("wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=4096)


def read_in_random_order(folder: Path) -> Batches:
    """Samples of the whole split in a random order."""
    shards = TokenShards(folder, "train")
    order = sample_order(shards.num_samples(LENGTH), epoch=0, seed=0)
    return map(torch.from_numpy, shards.batches(order, LENGTH, BATCH))


def stream_of(kind: str, files: str, options: dict[str, object] | None = None) -> IterableDataset:
    """The rows of ``arrow`` or ``parquet`` files as a stream."""
    return load_dataset(kind, data_files=files, split="train", streaming=True, storage_options=options)


def as_documented(stream: IterableDataset) -> Batches:
    """A stream with the torch format and without a ``DataLoader``, which would only cost it time."""
    return (batch["input_ids"] for batch in stream.with_format("torch").iter(BATCH))


def by_hand(stream: IterableDataset) -> Batches:
    """A stream of Arrow tables, made into tensors by hand: the fastest way there is to read one."""
    for table in stream.with_format("arrow").iter(BATCH):
        ids = table["input_ids"].combine_chunks().flatten().to_numpy()
        yield torch.from_numpy(ids.astype(np.int64).reshape(-1, LENGTH + 1))


@dataclass(frozen=True)
class Measured:
    """What one way of reading took."""

    tokens_per_s: float
    tokens_per_cpu_s: float
    memory_mb: float
    """Private memory at most, beyond what there was before; pages of mapped files are the kernel's to take back."""


def measured(batches: Batches, limit_s: float) -> Measured:
    """Read to the end or for so long."""
    base, num_tokens, peak = private_mb(), 0, Peak()
    cpu, began = time.process_time(), time.perf_counter()
    with peak:
        for batch in batches:
            assert batch.dtype == torch.int64
            num_tokens += batch.numel()
            if time.perf_counter() - began > limit_s:
                break
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    return Measured(num_tokens / seconds, num_tokens / cpu_s, max(0.0, peak.mb - base))


def best_of_two(ways: Mapping[str, Callable[[], Batches]], limit_s: float, *, by: str) -> dict[str, Measured]:
    """The better of two turns of each way, which take turns so that the machine's mood meets all of them."""
    best: dict[str, Measured] = {}
    for _ in range(2):
        for way, read in ways.items():
            found = measured(read(), limit_s)
            best[way] = max(found, best.get(way, found), key=attrgetter(by))
    return best


class Peak:
    """Looks at the private memory a hundred times a second while it is entered."""

    def __init__(self) -> None:
        self.mb = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.01):
            self.mb = max(self.mb, private_mb())


def private_mb() -> float:
    """Anonymous memory of this process."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024
