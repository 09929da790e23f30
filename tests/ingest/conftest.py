"""Runs the stage on files a test writes."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from upath import UPath

from tasks.core.config import validated
from tasks.core.documents import read_table
from tasks.ingest.config import IngestConfig
from tasks.ingest.stage import IngestResult, run


@dataclass(frozen=True)
class Ingested:
    out: UPath
    result: IngestResult
    rows: list[dict[str, Any]]
    report: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        return sorted(row["text"] for row in self.rows)


@pytest.fixture
def ingest(tmp_path_factory):
    """``ingest(source, …, knob=value)``: a source is a path or a dict of its knobs."""

    def go(*sources, **knobs) -> Ingested:
        given = [one if isinstance(one, dict) else {"path": str(one)} for one in sources]
        named = [{"name": f"s{number}"} | one | {"path": str(one["path"])} for number, one in enumerate(given)]
        out = UPath(tmp_path_factory.mktemp("out"))
        result = run(validated(IngestConfig, {"sources": named} | knobs, stage="ingest"), out=out)
        report = json.loads((out / "report" / "ingest.json").read_text("utf-8"))
        return Ingested(out, result, read_table(out).to_pylist(), report)

    return go
