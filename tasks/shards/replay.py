"""Which of the known training documents are seen again beside the new ones, so that the model does not forget them.

Mixing old text into continued training is known as replay: Ibrahim et al., "Simple and Scalable Strategies to
Continually Pre-train Large Language Models", 2024.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from upath import UPath

from tasks.core import documents as docs
from tasks.core.errors import DataError, NothingNew
from tasks.shards.config import ShardsConfig
from tasks.text.split import TRAIN, split_of

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Replay:
    """What is stored of documents of which some were known."""

    chosen: Mask
    """Whether each document is stored, in the order in which they are read."""
    num_replayed: int
    """Known training documents among those."""


def choose(config: ShardsConfig, documents: UPath, known: UPath) -> Replay:
    """All new documents, all that are held out, and known training documents up to ``replay_share``.

    No text stays in memory, only ids, clusters and sizes.

    Raises:
        NothingNew: when there is no new document to train on.
        DataError: when a known one is not among the documents.
    """
    rows, known_ids = _rows(documents), docs.read_table(known, ["id"])["id"]
    new = ~pc.is_in(rows["id"], value_set=known_ids).to_numpy()
    _check_built_on(len(known_ids), int((~new).sum()), documents)
    train = np.array([split_of(one, config.split) == TRAIN for one in rows["cluster"].to_pylist()], np.bool_)
    _check_new(new, train, documents)
    num_bytes, candidates = rows["num_bytes"].to_numpy(), np.flatnonzero(train & ~new)
    wanted_bytes = config.replay_share / (1 - config.replay_share) * int(num_bytes[train & new].sum())
    order = _drawn(rows["id"].take(candidates).to_pylist(), config.seed)
    drawn = candidates[order][: num_enough(num_bytes[candidates[order]], wanted_bytes)]
    chosen = new | ~train
    chosen[drawn] = True
    return Replay(chosen, len(drawn))


def num_enough(num_bytes: npt.NDArray[np.int64], wanted_bytes: float) -> int:
    """How many of the first documents it takes to reach so many bytes; all when they do not suffice."""
    reached = np.concatenate([[0], np.cumsum(num_bytes, dtype=np.int64)])
    return min(int(np.searchsorted(reached, wanted_bytes)), len(num_bytes))


def _rows(documents: UPath) -> pa.Table:
    """``[id, cluster, num_bytes]`` of all documents, the size in bytes of UTF-8."""
    schema = pa.schema([("id", pa.string()), ("cluster", pa.string()), ("num_bytes", pa.int64())])
    batches = (
        pa.record_batch([batch["id"], batch["cluster"], pc.binary_length(batch["text"]).cast(pa.int64())], schema)
        for batch in docs.iter_batches(documents, ["id", "cluster", "text"])
    )
    return pa.Table.from_batches(batches, schema)


def _check_built_on(num_known: int, num_found: int, documents: UPath) -> None:
    if num_found < num_known:
        raise DataError(
            f"{num_known - num_found} of {num_known} known documents are not among the documents",
            subject=str(documents),
            next_step="give shards the same known artifact that dedup was given",
        )


def _check_new(new: Mask, train: Mask, documents: UPath) -> None:
    if not (new & train).any():
        held_out = f" or is held out ({new.sum()} new)" if new.any() else ""
        raise NothingNew(
            f"there is nothing new to train on: all that arrived was known already{held_out}",
            subject=str(documents),
            next_step="wait for more documents; what dedup dropped, and for which known one, is in its report/ folder",
        )


def _drawn(ids: list[str], seed: int) -> npt.NDArray[np.int64]:
    """The order in which documents are drawn. The digest is not the one that orders the training documents: else
    those drawn would be the very ones that come first there.
    """
    keys = [hashlib.blake2b(f"{seed}\x1f{one}".encode(), digest_size=16, person=b"replay").digest() for one in ids]
    order: npt.NDArray[np.int64] = pc.sort_indices(pa.array(keys, pa.binary())).to_numpy().astype(np.int64)
    return order
