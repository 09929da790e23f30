"""Counts documents."""

import time
from dataclasses import dataclass

from tasks.core.documents import read_table

VERSION = 1


@dataclass(frozen=True)
class CountResult:
    """How many there are."""

    num_documents: int


def run(config, documents, *, out):
    time.sleep(config.pause_s)
    found = read_table(documents).num_rows
    (out / "count.txt").write_text(f"{found} {config.unit}\n")
    return CountResult(found)
