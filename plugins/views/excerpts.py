"""Small readings of an artifact's files: a few rows, a few hundred points, never a large file whole."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tasks.core.artifact import REPORT, Artifact, File

MAX_BYTES = 4 << 20
"""A JSON file above this is not read, and of a longer file of lines only about this much is kept."""
MAX_SAMPLES = 20
MAX_EACH = 4
"""Samples of one reason, so that a frequent one leaves room for the rare."""
MAX_SHARDS = 8
BATCH_ROWS = 256
MAX_CHARS = 300
LINE_END = re.compile(r"\s*\n\s*")
CURVE = f"{REPORT}/training.jsonl"
INGEST = f"{REPORT}/ingest.json"


@dataclass(frozen=True)
class Sample:
    """A document that was taken out."""

    reason: str
    source: str
    text: str


def file_named(artifact: Artifact, name: str) -> File | None:
    """A file that the record names and that is still there; a reader goes through the record only."""
    named = next((file for file in artifact.record.files if file.path == name), None)
    return named if named and (artifact.path / name).is_file() else None


def curve_of(artifact: Artifact) -> list[dict[str, Any]]:
    """Lines of the loss curve in their order, of a very long one every n-th and all with a validation loss."""
    file = file_named(artifact, CURVE)
    if file is None:
        return []
    stride = 1 + file.size // MAX_BYTES
    with (artifact.path / CURVE).open("rb") as lines:
        kept = (line for number, line in enumerate(lines) if not number % stride or b'"validation_loss"' in line)
        return [json.loads(line) for line in kept]


def points_of(lines: list[dict[str, Any]], name: str) -> list[tuple[float, float]]:
    """Step and value of every line that has a finite number of this name."""
    return [(line["step"], line[name]) for line in lines if line.get(name) is not None and math.isfinite(line[name])]


def samples_of(artifact: Artifact) -> list[Sample]:
    """At most twenty documents that were taken out, of every reason that is met a few, in a fixed order."""
    met: Counter[str] = Counter()
    found = []
    for sample in (*malformed_rows(artifact), *dropped_rows(artifact)):
        met[sample.reason] += 1
        if met[sample.reason] <= MAX_EACH:
            found.append(sample)
    return sorted(found[:MAX_SAMPLES], key=lambda one: one.reason)


def one_line(text: str) -> str:
    """The beginning of a text with its lines put behind each other."""
    return LINE_END.sub(" ↵ ", text[:MAX_CHARS].strip())


def malformed_rows(artifact: Artifact) -> Iterator[Sample]:
    """Rows of the sources that could not be read, as ingest reported them."""
    file = file_named(artifact, INGEST)
    if file is None or file.size > MAX_BYTES:
        return
    report = json.loads((artifact.path / INGEST).read_text("utf-8"))
    for source, tally in report.items():
        for row in tally["malformed_shown"]:
            yield Sample(row["reason"], f"{source} {row['file']}:{row['row']}", one_line(row["excerpt"]))


def dropped_rows(artifact: Artifact) -> Iterator[Sample]:
    """The first documents of the first few ``dropped-*.parquet``, read in one small batch each."""
    import pyarrow.parquet as pq

    names = [file.path for file in artifact.record.files if file.path.startswith(f"{REPORT}/dropped-")]
    for name in names[:MAX_SHARDS]:
        if file_named(artifact, name) is None:
            continue
        with (artifact.path / name).open("rb") as file:
            batches = pq.ParquetFile(file).iter_batches(BATCH_ROWS, columns=["drop_reason", "source", "excerpt"])
            for batch in islice(batches, 1):
                for row in batch.to_pylist():
                    yield Sample(row["drop_reason"], row["source"], one_line(row["excerpt"]))
