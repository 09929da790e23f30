"""Tokens of all documents in the order they are read, on local disk until their final order is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from upath import UPath

from tasks.core import documents as docs
from tasks.core import events
from tasks.lm.fast_encoding import Encoder, Ids
from tasks.lm.shard_file import Stored
from tasks.text.split import Split, split_of

COLUMNS = ["id", "source", "language", "cluster", "text"]
BATCH_ROWS = 512


@dataclass(frozen=True)
class Spool:
    """Every document's tokens, each closed by the end of text, and where they are."""

    tokens: Stored
    """Memory-mapped; shape ``(num_tokens,)``."""
    rows: pa.Table
    """``[id, source, language, split, num_tokens, num_bytes, start]``, ``start`` in tokens."""


def token_dtype(vocab_size: int) -> np.dtype[Any]:
    """The narrowest of the two widths that holds every id, little endian."""
    return np.dtype("<u2" if vocab_size <= 2**16 else "<u4")


def spool_documents(
    documents: UPath,
    encoder: Encoder,
    split: Split,
    eos_id: int,
    file: Path,
    chosen: npt.NDArray[np.bool_] | None = None,
) -> Spool:
    """Encode all documents into ``file``, one batch in memory at a time; with ``chosen`` only those it is true for,
    in the order in which they are read.
    """
    dtype = token_dtype(encoder.tokenizer.get_vocab_size())
    rows: list[dict[str, Any]] = []
    with file.open("wb") as sink:
        start = 0
        for row, ids in _encoded(documents, encoder, chosen):
            stored = np.append(ids, eos_id).astype(dtype)
            sink.write(stored.tobytes())
            rows.append(
                {
                    "id": row["id"],
                    "source": row["source"],
                    "language": row["language"],
                    "split": split_of(row["cluster"], split),
                    "num_tokens": len(stored),
                    "num_bytes": len(row["text"].encode("utf-8")),
                    "start": start,
                }
            )
            start += len(stored)
    tokens = np.memmap(file, dtype, "r") if start else np.empty(0, dtype)
    return Spool(tokens, pa.Table.from_pylist(rows, schema=SPOOLED))


SPOOLED = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),
        ("language", pa.string()),
        ("split", pa.string()),
        ("num_tokens", pa.int64()),
        ("num_bytes", pa.int64()),
        ("start", pa.int64()),
    ]
)


def _encoded(
    documents: UPath, encoder: Encoder, chosen: npt.NDArray[np.bool_] | None
) -> Iterator[tuple[dict[str, Any], Ids]]:
    done = 0
    for batch in docs.iter_batches(documents, COLUMNS, rows=BATCH_ROWS):
        wanted = batch if chosen is None else batch.filter(pa.array(chosen[done : done + batch.num_rows]))
        rows = wanted.to_pylist()
        yield from zip(rows, encoder.encode_batch([row["text"] for row in rows]), strict=True)
        done += batch.num_rows
        events.progress(done, None, "documents")
