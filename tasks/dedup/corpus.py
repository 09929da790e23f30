"""What is held in memory of all documents: half a kilobyte of signature each, and no text."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from upath import UPath

from tasks.core import documents as docs
from tasks.core import engine, events
from tasks.core.errors import DataError
from tasks.dedup.candidates import Pairs
from tasks.dedup.config import DedupConfig
from tasks.dedup.minhash import NOTHING, Signatures, signatures
from tasks.dedup.shingles import Hashes, Offsets, shingle_sets, shingles_of
from tasks.dedup.sides import equal_sides

COLUMNS = ["id", "text", "text_digest", "meta"]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Corpus:
    """All documents, numbered by the rank of their id, so that a number does not depend on the order of arrival."""

    ids: pa.Array
    digests: Numbers
    """A number per text: equal for equal texts."""
    num_chars: Numbers
    signatures: Signatures
    same_side: Pairs
    """Pair documents that share a side."""
    numbers: Numbers
    """The number of each document in the order in which the shards are read."""

    def __len__(self) -> int:
        return len(self.ids)

    def have_words(self) -> npt.NDArray[np.bool_]:
        """Which documents have a shingle at all."""
        found: npt.NDArray[np.bool_] = (self.signatures != NOTHING).any(axis=1)
        return found


def read_corpus(config: DedupConfig, documents: UPath) -> Corpus:
    """Read every shard and compute the signatures.

    Threads are enough: nine tenths of the time is in kernels that do not hold the interpreter's lock, and a process
    would take seconds to load them.

    Raises:
        DataError: when there is no document at all.
    """
    started, parts = time.perf_counter(), []
    shards = docs.shards_of(documents)
    with ThreadPoolExecutor(config.workers) as pool:
        for part in pool.map(partial(_read_shard, config), shards):
            parts.append(part)
            events.progress(len(parts), len(shards), "shards read")
    table = pa.concat_tables([part for part, _ in parts])
    if not table.num_rows:
        raise DataError(
            "there are no documents to de-duplicate",
            subject=str(documents),
            next_step="see what the stages before dropped and why, in their report/ folders",
        )
    events.metric("documents_per_s", table.num_rows / (time.perf_counter() - started))
    return _numbered(table, np.concatenate([part for _, part in parts]))


def _read_shard(config: DedupConfig, path: UPath) -> tuple[pa.Table, Signatures]:
    table, found = docs.read_shard(path, COLUMNS), [np.empty((0, config.num_permutations), np.uint32)]
    for batch in table.to_batches(max_chunksize=engine.BATCH_ROWS):
        shingles = shingles_of(batch["text"].to_pylist(), config.shingle_words)
        found.append(signatures(shingles, config.num_permutations, config.seed))
    num_chars = pc.cast(pc.utf8_length(table["text"]), pa.int64())
    return table.drop_columns(["text"]).append_column("num_chars", num_chars), np.concatenate(found)


def _numbered(table: pa.Table, unordered: Signatures) -> Corpus:
    order = pc.sort_indices(table["id"]).to_numpy()
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.arange(len(order))
    table = table.take(order).combine_chunks()
    return Corpus(
        ids=table["id"].combine_chunks(),
        digests=table["text_digest"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64),
        num_chars=table["num_chars"].to_numpy(),
        signatures=unordered[order],
        same_side=equal_sides(table["meta"].to_pylist()),
        numbers=numbers,
    )


def read_sets(config: DedupConfig, documents: UPath, corpus: Corpus, wanted: Numbers) -> tuple[Hashes, Offsets]:
    """The distinct shingles, sorted, of the wanted documents; those of document ``i`` are
    ``hashes[offsets[i]:offsets[i + 1]]``, empty for one not wanted. The texts are read a second time for it.
    """
    sets: list[Hashes] = [np.empty(0, np.uint64)] * len(corpus)
    is_wanted = np.zeros(len(corpus), np.bool_)
    is_wanted[wanted] = True
    row = 0
    for batch in docs.iter_batches(documents, ["text"], rows=engine.BATCH_ROWS):
        numbers = corpus.numbers[row : row + batch.num_rows]
        row += batch.num_rows
        texts = batch["text"].filter(pa.array(is_wanted[numbers])).to_pylist()
        found = shingle_sets(texts, config.shingle_words)
        for number, one in zip(numbers[is_wanted[numbers]], found, strict=True):
            sets[number] = one
        events.progress(row, len(corpus), "documents")
    return np.concatenate(sets), np.cumsum([0, *map(len, sets)], dtype=np.int64)
