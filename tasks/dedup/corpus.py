"""What is held in memory of all documents: half a kilobyte of signature each, and no text.

Known documents, those that an earlier run kept, have the smallest numbers. So the first document of a bucket and the
smallest number of a component are known ones wherever there is a known one.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain

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
    """All documents, numbered by the rank of their id, so that a number does not depend on the order of arrival.

    A document that came in with the id of a known one is that one delivered again: all but its own number is the
    known one's.
    """

    artifacts: tuple[UPath, ...]
    """Where the documents are read: the known ones, if any, then those that came in."""
    clusters: pa.Array
    """Of the known documents, which are numbers 0 to ``num_known - 1``."""
    ids: pa.Array
    digests: Numbers
    """A number per text: equal for equal texts. An empty text is nobody's copy, so its number is its id's."""
    num_chars: Numbers
    signatures: Signatures
    same_side: Pairs
    """Pair documents that share a side."""
    numbers: Numbers
    """The number of each document in the order in which the shards are read."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def num_known(self) -> int:
        """Documents that an earlier run kept; the first that came in has this number."""
        return len(self.clusters)

    def have_words(self) -> npt.NDArray[np.bool_]:
        """Which documents have a shingle at all."""
        found: npt.NDArray[np.bool_] = (self.signatures != NOTHING).any(axis=1)
        return found


def read_corpus(config: DedupConfig, documents: UPath, known: UPath | None = None) -> Corpus:
    """Read every shard, those of the known documents first, and compute the signatures.

    Threads are enough: nine tenths of the time is in kernels that do not hold the interpreter's lock, and a process
    would take seconds to load them.

    Raises:
        DataError: when there is no document at all.
    """
    started, parts = time.perf_counter(), []
    artifacts = (known, documents) if known else (documents,)
    shards = [shard for artifact in artifacts for shard in docs.shards_of(artifact)]
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
    clusters = docs.read_table(known, ["cluster"])["cluster"] if known else pa.chunked_array([], pa.string())
    return _numbered(artifacts, clusters, table, np.concatenate([part for _, part in parts]))


def _read_shard(config: DedupConfig, path: UPath) -> tuple[pa.Table, Signatures]:
    table, found = docs.read_shard(path, COLUMNS), [np.empty((0, config.num_permutations), np.uint32)]
    for batch in table.to_batches(max_chunksize=engine.BATCH_ROWS):
        shingles = shingles_of(batch["text"].to_pylist(), config.shingle_words)
        found.append(signatures(shingles, config.num_permutations, config.seed))
    num_chars = pc.cast(pc.utf8_length(table["text"]), pa.int64())
    return table.drop_columns(["text"]).append_column("num_chars", num_chars), np.concatenate(found)


def _numbered(
    artifacts: tuple[UPath, ...], clusters: pa.ChunkedArray, table: pa.Table, unordered: Signatures
) -> Corpus:
    order = _by_number(table["id"], len(clusters))
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.arange(len(order))
    rows = order[_delivered_before(table["id"].take(order), len(clusters))]
    table = table.take(rows).combine_chunks()
    texts = pc.if_else(pc.greater(table["num_chars"], 0), table["text_digest"], table["id"])
    return Corpus(
        artifacts=artifacts,
        clusters=clusters.take(order[: len(clusters)]).combine_chunks(),
        ids=table["id"].combine_chunks(),
        digests=texts.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64),
        num_chars=table["num_chars"].to_numpy(),
        signatures=unordered[rows],
        same_side=equal_sides(table["meta"].to_pylist()),
        numbers=numbers,
    )


def _by_number(ids: pa.ChunkedArray, num_known: int) -> Numbers:
    """The rows in the order of their numbers: the known ones, which were read first, then the others, each by id."""
    parts = [pc.sort_indices(part).to_numpy() for part in (ids.slice(0, num_known), ids.slice(num_known))]
    return np.concatenate([parts[0], num_known + parts[1]]).astype(np.int64)


def _delivered_before(ids: pa.ChunkedArray, num_known: int) -> Numbers:
    """For each number that of the known document with the same id, its own where there is none."""
    known = pc.index_in(ids, value_set=ids.slice(0, num_known)).cast(pa.int64())
    found: Numbers = pc.coalesce(known, pa.array(np.arange(len(ids)))).to_numpy()
    return found


def read_sets(config: DedupConfig, corpus: Corpus, wanted: Numbers) -> tuple[Hashes, Offsets]:
    """The distinct shingles, sorted, of the wanted documents; those of document ``i`` are
    ``hashes[offsets[i]:offsets[i + 1]]``, empty for one not wanted. The texts are read a second time for it.
    """
    sets: list[Hashes] = [np.empty(0, np.uint64)] * len(corpus)
    is_wanted = np.zeros(len(corpus), np.bool_)
    is_wanted[wanted] = True
    row = 0
    batches = (docs.iter_batches(one, ["text"], rows=engine.BATCH_ROWS) for one in corpus.artifacts)
    for batch in chain.from_iterable(batches):
        numbers = corpus.numbers[row : row + batch.num_rows]
        row += batch.num_rows
        texts = batch["text"].filter(pa.array(is_wanted[numbers])).to_pylist()
        found = shingle_sets(texts, config.shingle_words)
        for number, one in zip(numbers[is_wanted[numbers]], found, strict=True):
            sets[number] = one
        events.progress(row, len(corpus), "documents")
    return np.concatenate(sets), np.cumsum([0, *map(len, sets)], dtype=np.int64)
