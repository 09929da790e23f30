"""Bulk work on documents: a pure function over batches, run over shards by local processes."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from upath import UPath

from tasks.core import documents, events

BATCH_ROWS = 1024
REASON = "drop_reason"
"""Column that a function may add: empty keeps the document, anything else is why it is dropped."""
EXCERPT_CHARS = 300

MapBatch = Callable[[pa.RecordBatch], pa.RecordBatch]
"""A pure function that can be pickled. It may change texts and add columns; it never changes ids or rows' order."""

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True)
class MapTotals:
    """What happened to the documents of one :func:`map_batches`."""

    num_in: int
    num_out: int
    dropped: dict[str, int]
    """Documents dropped, by reason."""


def map_batches(function: MapBatch, artifact: UPath, out: UPath, *, workers: int) -> MapTotals:
    """Apply ``function`` to every batch of every shard and write the result under the same shard numbers.

    Rows whose ``drop_reason`` is not empty go to ``report/dropped-*.parquet``, the others to ``documents/``. The
    output depends on the input and the function alone: not on ``workers``, nor on the order of completion.
    """
    shards = documents.shards_of(artifact)
    one = partial(_map_shard, function, out)
    num_in, dropped = 0, Counter[str]()
    for done, (rows, reasons) in enumerate(in_processes(one, list(enumerate(shards)), workers=workers), start=1):
        num_in, dropped = num_in + rows, dropped + Counter(reasons)
        events.progress(done, len(shards), "shards")
    for reason, count in sorted(dropped.items()):
        events.drop(reason, count)
    return MapTotals(num_in, num_in - dropped.total(), dict(sorted(dropped.items())))


def _map_shard(function: MapBatch, out: UPath, numbered: tuple[int, UPath]) -> tuple[int, dict[str, int]]:
    number, path = numbered
    table = documents.read_shard(path)
    batches = table.to_batches(max_chunksize=BATCH_ROWS) or [empty_batch(table.schema)]
    mapped = pa.Table.from_batches([function(batch) for batch in batches])
    reasons: dict[str, int] = {}
    if REASON in mapped.column_names:
        mapped, dropped = split_dropped(mapped)
        write_dropped(out, number, dropped)
        reasons = dict(Counter(dropped[REASON].to_pylist()))
    documents.write_shard(out, number, mapped)
    return table.num_rows, reasons


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows, so that a function can say its schema for an empty shard."""
    return pa.RecordBatch.from_pylist([], schema=schema)


def split_dropped(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Kept rows without the reason, and dropped rows with an excerpt in place of the text."""
    keep = pc.equal(table[REASON], "")
    dropped = table.filter(pc.invert(keep))
    text = dropped.column_names.index("text")
    excerpt = pc.utf8_slice_codeunits(dropped["text"], 0, EXCERPT_CHARS)
    return table.filter(keep).drop_columns([REASON]), dropped.set_column(text, "excerpt", excerpt)


def write_dropped(out: UPath, shard: int, dropped: pa.Table) -> None:
    """Write what was taken out and why, as ``report/dropped-<shard>.parquet``; outside the content digest."""
    folder = out / "report"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"dropped-{shard:05d}.parquet").open("wb") as file:
        pq.write_table(dropped.sort_by("id"), file, compression="zstd")


def worthwhile_workers(artifact: UPath, most: int, *, bytes_each: int) -> int:
    """As many processes, up to ``most``, as have ``bytes_each`` of the documents' Parquet bytes to work on.

    A process costs its start and its imports; below what that is worth, the work is done sooner in this one.
    """
    size_bytes = sum(path.stat().st_size for path in documents.shards_of(artifact))
    return max(1, min(most, size_bytes // bytes_each))


def in_processes(function: Callable[[A], B], items: Sequence[A], *, workers: int) -> Iterator[B]:
    """``map`` over processes, results in the order of ``items``; in this process when one worker is enough.

    Processes are spawned, not forked: a fork of a process whose libraries hold threads can hang.
    """
    if workers <= 1 or len(items) <= 1:
        yield from map(function, items)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(items)), mp_context=context) as pool:
        yield from pool.map(function, items)
