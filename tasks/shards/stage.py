"""Split the documents by near-copy cluster and store the tokens of each split in memory-mapped shards.

With ``known``, the artifact of dedup that ``documents`` was made beside, the training split is what is new and as much
of what was known as ``replay_share`` asks for. The held-out splits are those of all documents, known and new.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from upath import UPath

from tasks.core import events
from tasks.core.errors import DataError
from tasks.lm.encoding import END_OF_TEXT, load_tokenizer
from tasks.lm.fast_encoding import Encoder
from tasks.lm.token_shards import FORMAT, INDEX
from tasks.shards.config import ShardsConfig
from tasks.shards.replay import choose
from tasks.shards.spool import Spool, spool_documents
from tasks.shards.writer import write_split
from tasks.text.split import SPLITS, TRAIN, Split

VERSION = 2


@dataclass(frozen=True)
class ShardsResult:
    """What was stored, by split; three of them by ``split/language`` and ``split/source``."""

    num_tokens: dict[str, int]
    """Tokens, the end of each document included."""
    num_documents: dict[str, int]
    num_bytes: dict[str, int]
    """UTF-8 bytes of the texts."""
    num_tokens_by_language: dict[str, int]
    num_bytes_by_language: dict[str, int]
    num_tokens_by_source: dict[str, int]
    num_replayed: int
    """Training documents that were known; 0 without ``known``."""


def run(
    config: ShardsConfig, documents: UPath, tokenizer: UPath, known: UPath | None = None, *, out: UPath
) -> ShardsResult:
    """Write ``<split>/shard-*.arrow`` and ``<split>/documents.parquet``, then ``index.json``.

    Raises:
        DataError: when a split that asks for documents has none.
        HeadraceError: when the fast encoder gives a document of the sample other ids than the tokenizer.
        NothingNew: when known documents are given and no other is there to train on.
    """
    replay = choose(config, documents, known) if known else None
    encoder = Encoder(load_tokenizer(tokenizer), fast=config.fast_encoding)
    if encoder.why_slow:
        events.note(f"the tokenizers library encodes, not tiktoken: {encoder.why_slow}")
    eos_id = encoder.tokenizer.token_to_id(END_OF_TEXT)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        chosen = replay.chosen if replay else None
        spool = spool_documents(documents, encoder, config.split, eos_id, Path(folder) / "tokens", chosen)
        events.metric("tokens_per_s", len(spool.tokens) / (time.perf_counter() - started))
        check_split(spool.rows, config.split)
        splits = {split: _stored(config, spool, split, out) for split in SPLITS}
        index = _index(spool, encoder.tokenizer.get_vocab_size(), eos_id, splits)
    (out / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    return _result(spool.rows, splits, replay.num_replayed if replay else 0)


def check_split(rows: pa.Table, split: Split) -> None:
    """Refuse a split that leaves a side empty that should not be.

    Raises:
        DataError: naming the empty side.
    """
    found = set(rows["split"].to_pylist())
    for side in SPLITS:
        share = split.share(side)
        if side not in found and (side == TRAIN or share > 0):
            raise DataError(
                f"the {side} split is empty: none of {rows.num_rows} documents fell into its share of {share:g}",
                subject=side,
                next_step="change the shares of split, or give more documents that are not near-copies of each other",
            )


def _stored(config: ShardsConfig, spool: Spool, split: str, out: UPath) -> dict[str, Any]:
    """Write one split and say what in it is empty; returns its entry of the index."""
    num_shards = config.num_shards if split == TRAIN else None
    rows = _ordered(spool.rows, split, config.seed)
    entry = write_split(spool, rows, out / split, config.shard_tokens, num_shards)
    num_empty = sum(not shard["num_documents"] for shard in entry["shards"])
    if not entry["num_documents"]:
        events.note(f"the {split} split holds no documents")
    elif num_empty:
        events.note(f"{num_empty} of {num_shards} shards of the {split} split hold no document")
    return entry


def _ordered(rows: pa.Table, split: str, seed: int) -> pa.Table:
    """The rows of a split: training documents in an order drawn by seed, held-out ones by id."""
    rows = rows.filter(pc.equal(rows["split"], split)).sort_by("id")
    if split != TRAIN:
        return rows
    keys = [hashlib.blake2b(f"{seed}\x1f{one}".encode(), digest_size=16).digest() for one in rows["id"].to_pylist()]
    return rows.take(pc.sort_indices(pa.array(keys)))


def _index(spool: Spool, vocab_size: int, eos_id: int, splits: dict[str, Any]) -> dict[str, Any]:
    name = {2: "uint16", 4: "uint32"}[spool.tokens.dtype.itemsize]
    return {"format": FORMAT, "dtype": name, "vocab_size": vocab_size, "eos_id": eos_id, "splits": splits}


def _result(rows: pa.Table, splits: dict[str, Any], num_replayed: int) -> ShardsResult:
    return ShardsResult(
        num_tokens={split: entry["num_tokens"] for split, entry in splits.items()},
        num_documents={split: entry["num_documents"] for split, entry in splits.items()},
        num_bytes={split: entry["num_bytes"] for split, entry in splits.items()},
        num_tokens_by_language=_sums(rows, "language", "num_tokens"),
        num_bytes_by_language=_sums(rows, "language", "num_bytes"),
        num_tokens_by_source=_sums(rows, "source", "num_tokens"),
        num_replayed=num_replayed,
    )


def _sums(rows: pa.Table, by: str, column: str) -> dict[str, int]:
    summed = rows.group_by(["split", by]).aggregate([(column, "sum")]).to_pylist()
    return dict(sorted((f"{row['split']}/{row[by]}", row[f"{column}_sum"]) for row in summed))
