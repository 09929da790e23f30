"""Token shards made of given tokens, without documents to encode; in the format that the stage writes."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from upath import UPath

from tasks.lm.shard_file import write_shard
from tasks.lm.token_shards import FORMAT


def store_tokens(
    folder: Path | UPath,
    splits: dict[str, Sequence[np.ndarray]],
    *,
    vocab_size: int,
    rows: dict[str, dict[str, pa.Array]] | None = None,
    bytes_per_token: int = 3,
) -> Path | UPath:
    """Write the documents of each split, given by their tokens, as one shard; ``rows`` holds further columns."""
    entries = {}
    for split, documents in splits.items():
        sizes = pa.array([bytes_per_token * len(one) for one in documents], pa.int64())
        columns = {"num_bytes": sizes} | (rows or {}).get(split, {})
        entries[split] = _store_split(folder / split, documents, columns)
    index = {"format": FORMAT, "dtype": "uint16", "vocab_size": vocab_size, "eos_id": 0, "splits": entries}
    (folder / "index.json").write_text(json.dumps(index), encoding="utf-8")
    return folder


def _store_split(folder: Path | UPath, documents: Sequence[np.ndarray], columns: dict[str, pa.Array]) -> dict[str, Any]:
    folder.mkdir(parents=True)
    lengths = np.array([len(one) for one in documents], np.int64)
    batches = [(np.concatenate(documents).astype("<u2"), lengths)] if documents else []
    with (folder / "shard-00000.arrow").open("wb") as file:
        entry = write_shard(file, np.dtype("<u2"), batches)
    table = {"num_tokens": lengths, "offset": np.cumsum(lengths) - lengths, **columns}
    with (folder / "documents.parquet").open("wb") as file:
        pq.write_table(pa.table(table), file)
    return {
        "shards": [{"file": f"{folder.name}/shard-00000.arrow", **entry}],
        "num_tokens": int(lengths.sum()),
        "num_documents": len(documents),
        "num_bytes": sum(columns["num_bytes"].to_pylist()),
    }
