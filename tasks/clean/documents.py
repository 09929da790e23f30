"""Repair and filter, as one pure function over batches of documents."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from tasks.clean.config import CleanConfig
from tasks.core.documents import text_digest
from tasks.core.engine import REASON

if TYPE_CHECKING:
    from tasks.clean.cleaner import Cleaner


@dataclass(frozen=True)
class CleanBatch:
    """The pure function of this stage: texts repaired, ``language`` and ``drop_reason`` added."""

    config: CleanConfig

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Clean one batch; rows keep their order."""
        cleaner = _cleaner(self.config)
        rows = batch.select(["text", "text_digest", "source", "meta"]).to_pylist()
        done = [cleaner.clean(row["text"], row["meta"], row["source"]) for row in rows]
        digests = [
            row["text_digest"] if one.text == row["text"] else text_digest(one.text)
            for row, one in zip(rows, done, strict=True)
        ]
        new = {"text": [one.text for one in done], "text_digest": digests, "meta": [one.meta for one in done]}
        for name, values in new.items():
            place = batch.schema.get_field_index(name)
            batch = batch.set_column(place, batch.schema.field(place), pa.array(values, pa.string()))
        batch = batch.append_column("language", pa.array([one.language for one in done], pa.string()))
        return batch.append_column(REASON, pa.array([one.reason for one in done], pa.string()))


@cache
def _cleaner(config: CleanConfig) -> Cleaner:
    # Here and not above: loading spaCy, textacy and the model takes seconds, once in each process that does the
    # work; the process that hands it out needs none of them.
    from tasks.clean.cleaner import Cleaner

    return Cleaner(config)
