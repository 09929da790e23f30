"""Files of several formats become documents."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from upath import UPath

from tasks.core import events
from tasks.core.errors import DataError
from tasks.ingest.assemble import Assembler
from tasks.ingest.config import IngestConfig
from tasks.ingest.files import SourceFile, all_files
from tasks.ingest.readers import read_file
from tasks.ingest.rows import Malformed, Row
from tasks.ingest.spool import Spool, spooling

VERSION = 1
NUM_SHOWN = 3
"""How many malformed rows of each reason are shown."""


@dataclass(frozen=True)
class IngestResult:
    """What came in."""

    num_files: int
    num_rows: int
    num_documents: int
    num_empty: int
    """Rows whose text was empty or white space; they are not kept."""
    num_malformed: int
    malformed: dict[str, int]
    """Rows that could not become a document, by reason."""
    by_source: dict[str, int]
    """Documents by source."""
    encodings: dict[str, int]
    """Files by encoding."""
    num_chars: int


@dataclass
class Tally:
    """What one source gave, while it is being read."""

    num_rows: int = 0
    num_documents: int = 0
    num_empty: int = 0
    num_chars: int = 0
    malformed: Counter[str] = field(default_factory=Counter)
    shown: list[dict[str, Any]] = field(default_factory=list)
    encodings: Counter[str] = field(default_factory=Counter)
    files: list[dict[str, Any]] = field(default_factory=list)

    def take_malformed(self, row: Malformed, file: str) -> None:
        """Count a malformed row, and keep it when it is one of the first of its reason."""
        self.malformed[row.reason] += 1
        if self.malformed[row.reason] <= NUM_SHOWN:
            self.shown.append({"file": file, "row": row.position, "reason": row.reason, "excerpt": row.excerpt})


def run(config: IngestConfig, *, out: UPath) -> IngestResult:
    """Read all sources and write their documents.

    Raises:
        ConfigError: when a source has no file, or lacks a column that its knobs name.
        DataError: when a file cannot be read, too many rows are malformed, or there is no document.
    """
    files = all_files(config)
    size_bytes = sum(file.size_bytes for some in files.values() for file in some)
    done_bytes, started_s = 0, time.monotonic()
    tallies = {name: Tally() for name in files}
    with spooling(config.num_shards) as spool:
        for number, source in enumerate(config.sources):
            assembler = Assembler(source, f"ingest.sources[{number}]")
            for file in files[source.name]:
                _read(file, assembler, tallies[source.name], spool, config.max_document_bytes)
                done_bytes += file.size_bytes
                events.progress(done_bytes, size_bytes, "bytes")
            assembler.check_columns()
        _write_report(out, tallies)
        _refuse_malformed(tallies, config.max_malformed_share)
        if not any(tally.num_documents for tally in tallies.values()):
            raise _nothing(tallies)
        spool.write_documents(out)
    events.metric("mb_per_s", size_bytes / 1e6 / max(time.monotonic() - started_s, 1e-9))
    return _result(tallies)


def _read(file: SourceFile, assembler: Assembler, tally: Tally, spool: Spool, max_bytes: int) -> None:
    opened = read_file(file, assembler.columns, max_bytes)
    if opened.columns is not None:
        assembler.see_columns(opened.columns)
        assembler.check_columns()
    before = tally.num_rows
    for document in _documents(opened.rows, assembler, tally, file):
        spool.add(document)
    tally.encodings[opened.encoding] += 1
    tally.files.append(
        {
            "file": file.name,
            "size_bytes": file.size_bytes,
            "encoding": opened.encoding,
            "num_rows": tally.num_rows - before,
        }
    )


def _documents(
    rows: Iterator[Row | Malformed], assembler: Assembler, tally: Tally, file: SourceFile
) -> Iterator[dict[str, Any]]:
    for row in rows:
        tally.num_rows += 1
        made = row if isinstance(row, Malformed) else assembler.document(row, file)
        if made is None:
            tally.num_empty += 1
        elif isinstance(made, Malformed):
            tally.take_malformed(made, file.name)
        else:
            tally.num_documents += 1
            tally.num_chars += len(made["text"])
            yield made


def _refuse_malformed(tallies: dict[str, Tally], max_share: float) -> None:
    lines = []
    for name, tally in tallies.items():
        count = tally.malformed.total()
        if count > max_share * tally.num_rows:
            reasons = ", ".join(f"{reason} {number}" for reason, number in sorted(tally.malformed.items()))
            lines.append(f"  {name}: {count} of {tally.num_rows} rows are malformed ({reasons}); the first:")
            lines += [f"    {one['file']}:{one['row']} {one['reason']}: {one['excerpt']}" for one in tally.shown]
    if lines:
        raise DataError(
            "\n".join([f"more than {max_share:.2%} of a source is malformed:", *lines]),
            next_step="repair the source, or raise ingest.max_malformed_share",
        )


def _nothing(tallies: dict[str, Tally]) -> DataError:
    told = "; ".join(
        f"{name}: {len(tally.files)} files, {tally.num_rows} rows, {tally.num_empty} empty, "
        f"{tally.malformed.total()} malformed"
        for name, tally in tallies.items()
    )
    return DataError(f"the sources hold no document ({told})", next_step="check ingest.sources")


def _write_report(out: UPath, tallies: dict[str, Tally]) -> None:
    """Write ``report/ingest.json``: files, encodings and malformed rows of each source."""
    report = {
        name: {
            "num_rows": tally.num_rows,
            "num_documents": tally.num_documents,
            "num_empty": tally.num_empty,
            "malformed": dict(sorted(tally.malformed.items())),
            "malformed_shown": tally.shown,
            "encodings": dict(sorted(tally.encodings.items())),
            "files": tally.files,
        }
        for name, tally in tallies.items()
    }
    folder = out / "report"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ingest.json").write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _result(tallies: dict[str, Tally]) -> IngestResult:
    malformed: Counter[str] = sum((tally.malformed for tally in tallies.values()), Counter())
    encodings: Counter[str] = sum((tally.encodings for tally in tallies.values()), Counter())
    num_empty = sum(tally.num_empty for tally in tallies.values())
    for reason, count in sorted((malformed + Counter({"empty": num_empty})).items()):
        events.drop(reason, count)
    return IngestResult(
        num_files=sum(len(tally.files) for tally in tallies.values()),
        num_rows=sum(tally.num_rows for tally in tallies.values()),
        num_documents=sum(tally.num_documents for tally in tallies.values()),
        num_empty=num_empty,
        num_malformed=malformed.total(),
        malformed=dict(sorted(malformed.items())),
        by_source={name: tally.num_documents for name, tally in tallies.items()},
        encodings=dict(sorted(encodings.items())),
        num_chars=sum(tally.num_chars for tally in tallies.values()),
    )
