"""Personal data becomes typed placeholders; what was found is counted and never written down."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass

import pyarrow.compute as pc
from upath import UPath

from tasks.core import events
from tasks.core.documents import iter_batches, read_shard, shards_of
from tasks.core.engine import map_batches, worthwhile_workers
from tasks.redact.config import RedactConfig
from tasks.redact.documents import RedactBatch
from tasks.text.pii import PLACEHOLDERS

VERSION = 1
WORKER_BYTES = 4 * 2**20
"""Parquet bytes that take as long to redact as a process takes to start (2 s against 5 MB of text a second)."""
NUM_SAMPLES = 3
SAMPLE_CHARS = 60
"""Characters shown on each side of a placeholder."""


@dataclass(frozen=True)
class RedactResult:
    """What was replaced in the texts."""

    num_documents: int
    num_redacted: int
    """Documents in which something was replaced."""
    by_kind: dict[str, int]
    """Replacements by kind."""
    by_source: dict[str, int]
    """Replacements by source."""


def run(config: RedactConfig, documents: UPath, *, out: UPath) -> RedactResult:
    """Replace personal data in the texts and meta of all documents and write ``report/redactions.json``."""
    started_s = time.monotonic()
    function = RedactBatch(config.kinds, config.keep_local_addresses)
    workers = worthwhile_workers(documents, config.workers, bytes_each=WORKER_BYTES)
    totals = map_batches(function, documents, out, workers=workers)
    events.metric("documents_per_s", totals.num_out / max(time.monotonic() - started_s, 1e-9))
    tables, num_redacted = count_replacements(documents, out, config.kinds)
    _write_report(out, tables, num_redacted)
    _show_samples(out, config.kinds)
    by_kind: Counter[str] = sum(tables.values(), Counter())
    return RedactResult(
        num_documents=totals.num_out,
        num_redacted=num_redacted,
        by_kind={kind: by_kind[kind] for kind in sorted(config.kinds)},
        by_source={source: counts.total() for source, counts in sorted(tables.items())},
    )


def count_replacements(before: UPath, after: UPath, kinds: tuple[str, ...]) -> tuple[dict[str, Counter[str]], int]:
    """Replacements by source and kind, and how many documents had any.

    Counted as placeholders in the result less those that the input already had: exact, since no rule can take
    a placeholder, and the same however many processes did the work.
    """
    tables: dict[str, Counter[str]] = {}
    num_redacted = 0
    for old_path, new_path in zip(shards_of(before), shards_of(after), strict=True):
        old = read_shard(old_path, ["text", "text_digest"])
        new = read_shard(new_path, ["text", "text_digest", "source"])
        num_redacted += pc.sum(pc.not_equal(old["text_digest"], new["text_digest"])).as_py() or 0
        for kind in kinds:
            more = pc.subtract(*(pc.count_substring(one["text"], PLACEHOLDERS[kind]) for one in (new, old)))
            for source, count in zip(new["source"].to_pylist(), more.to_pylist(), strict=True):
                tables.setdefault(source, Counter())[kind] += count
    return tables, num_redacted


def _write_report(out: UPath, tables: dict[str, Counter[str]], num_redacted: int) -> None:
    report = {
        "num_redacted_documents": num_redacted,
        "by_source": {source: dict(sorted(counts.items())) for source, counts in sorted(tables.items())},
    }
    folder = out / "report"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "redactions.json").write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _show_samples(out: UPath, kinds: tuple[str, ...]) -> None:
    """Show a few replacements of each kind in what surrounds them, already redacted."""
    shown: Counter[str] = Counter()
    for batch in iter_batches(out, ["text"]):
        for kind in kinds:
            placeholder = PLACEHOLDERS[kind]
            for text in batch.column("text").filter(pc.match_substring(batch.column("text"), placeholder)).to_pylist():
                if shown[kind] == NUM_SAMPLES:
                    break
                place = text.index(placeholder)
                start, end = max(0, place - SAMPLE_CHARS), place + len(placeholder) + SAMPLE_CHARS
                events.sample(f"redacted/{kind}", text[start:end].replace("\n", " "))
                shown[kind] += 1
