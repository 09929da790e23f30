"""What was there before: an earlier dedup artifact, whose documents stay as they are."""

from __future__ import annotations

import pyarrow as pa
from upath import UPath

from tasks.core import documents as docs
from tasks.core.errors import DataError

CLUSTER = pa.field("cluster", pa.string())


def check_known(known: UPath, documents: UPath) -> None:
    """Refuse documents that cannot be put beside the known ones.

    Raises:
        DataError: when the two have another number of shards or other columns, ``cluster`` apart.
    """
    before, now = len(docs.shards_of(known)), len(docs.shards_of(documents))
    if before != now:
        raise DataError(
            f"the documents are in {now} shards and the known ones in {before}",
            subject=str(documents),
            next_step=f"set ingest.num_shards to {before}",
        )
    differing = _columns(docs.schema_of(known)) ^ _columns(docs.schema_of(documents).append(CLUSTER))
    if differing:
        raise DataError(
            f"the documents and the known ones differ in the columns {', '.join(sorted(differing))}",
            subject=str(documents),
            next_step="give known an artifact of dedup whose documents came through the same stages as these",
        )


def _columns(schema: pa.Schema) -> set[str]:
    return {f"{field.name} ({field.type})" for field in schema}
