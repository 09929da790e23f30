"""Documents are repaired, their language told, and those no published heuristic would keep are dropped."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from upath import UPath

from tasks.clean.config import CleanConfig
from tasks.clean.documents import CleanBatch
from tasks.clean.fingerprint import model_digest
from tasks.core import events
from tasks.core.documents import iter_batches, read_shard, shards_of
from tasks.core.engine import MapTotals, map_batches, worthwhile_workers
from tasks.core.errors import DataError

VERSION = 1
WORKER_BYTES = 4 * 2**20
"""Parquet bytes that take as long to clean as the libraries take to load (9 s against 1 MB of text a second)."""
NUM_SAMPLES = 2
"""How many dropped texts of each reason are shown."""


@dataclass(frozen=True)
class CleanResult:
    """What was kept, what was dropped and why."""

    num_in: int
    num_out: int
    num_repaired: int
    """Kept documents whose text changed."""
    dropped: dict[str, int]
    """Documents dropped, by reason."""
    by_language: dict[str, int]
    """Documents kept, by language."""
    by_source: dict[str, int]
    """Documents kept, by source."""
    language_model_digest: str


def run(config: CleanConfig, documents: UPath, *, out: UPath) -> CleanResult:
    """Clean all documents.

    Raises:
        DataError: when no document is left, naming the rule that took the most.
    """
    started_s = time.monotonic()
    _note_absent_sources(config, documents)
    workers = worthwhile_workers(documents, config.workers, bytes_each=WORKER_BYTES)
    totals = map_batches(CleanBatch(config), documents, out, workers=workers)
    events.metric("documents_per_s", totals.num_in / max(time.monotonic() - started_s, 1e-9))
    _show_dropped(out)
    if totals.num_out == 0:
        raise nothing_left(totals)
    languages, sources = Counter[str](), Counter[str]()
    for batch in iter_batches(out, ["language", "source"]):
        languages.update(batch.column("language").to_pylist())
        sources.update(batch.column("source").to_pylist())
    return CleanResult(
        num_in=totals.num_in,
        num_out=totals.num_out,
        num_repaired=_num_repaired(documents, out),
        dropped=totals.dropped,
        by_language=dict(sorted(languages.items())),
        by_source=dict(sorted(sources.items())),
        language_model_digest=model_digest(),
    )


def nothing_left(totals: MapTotals) -> DataError:
    """The error for a corpus that the rules took whole."""
    if not totals.dropped:
        return DataError("there is no document to clean", next_step="check what ingest reported")
    ranked = sorted(totals.dropped.items(), key=lambda pair: (-pair[1], pair[0]))
    told = ", ".join(f"{reason} {count}" for reason, count in ranked)
    return DataError(
        f"no document is left: {ranked[0][0]} took {ranked[0][1]} of {totals.num_in} ({told})",
        subject=f"clean rule {ranked[0][0]}",
        next_step=f"loosen or leave out {ranked[0][0]} (clean.english, clean.chinese, clean.languages), "
        "or list the source in clean.record_sources when its documents are short records",
    )


def _note_absent_sources(config: CleanConfig, documents: UPath) -> None:
    present: set[str] = set()
    for batch in iter_batches(documents, ["source"]):
        present.update(batch.column("source").unique().to_pylist())
    for name in sorted(set(config.record_sources) - present):
        events.note(f"clean.record_sources names {name!r}, of which there is no document; there are {sorted(present)}")


def _num_repaired(before: UPath, after: UPath) -> int:
    count = 0
    for old_path, new_path in zip(shards_of(before), shards_of(after), strict=True):
        old = read_shard(old_path, ["id", "text_digest"]).to_pydict()
        digests = dict(zip(old["id"], old["text_digest"], strict=True))
        new = read_shard(new_path, ["id", "text_digest"]).to_pydict()
        count += sum(digests[one] != digest for one, digest in zip(new["id"], new["text_digest"], strict=True))
    return count


def _show_dropped(out: UPath) -> None:
    shown: Counter[str] = Counter()
    for path in sorted((out / "report").glob("dropped-*.parquet"), key=lambda path: path.name):
        table = read_shard(path, ["drop_reason", "source", "excerpt"])
        for row in table.to_pylist():
            shown[row["drop_reason"]] += 1
            if shown[row["drop_reason"]] <= NUM_SAMPLES:
                events.sample(f"dropped/{row['drop_reason']}", f"[{row['source']}] {row['excerpt']}")
