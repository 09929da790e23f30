"""Exact copies by digest, near-copies by MinHash and exact Jaccard, clusters for the split.

1. Every document gets a signature; the texts are not kept in memory.
2. Of documents with the same text one stands for all. Those that agree on a band are candidates, and every
   candidate pair is compared by the exact Jaccard similarity of its shingle sets.
3. Pairs from ``threshold`` on are linked. Of each connected group the longest text is kept, of equally long ones the
   smallest id. Linking is single linkage: a chain of near-copies is one group, so a dropped document's similarity to
   the one kept, which is reported, may be below the threshold.
4. Pairs from ``cluster_threshold`` on, and pair documents with an equal side, share a ``cluster``. Links through
   dropped documents count: two kept documents that each resemble a dropped one are not independent.

A text shorter than a shingle is one shingle as a whole, so only another text of the very same words is its copy. A
text without a word has no near-copies, and an empty text is nobody's copy.

With ``known``, an earlier artifact of this stage, the documents are what came in since. A known document stays as it
is, cluster included, so it is never dropped and never moves between the splits, even when a new one links two of
them. A new document whose group holds a known one is dropped for it; one with the id of a known one is the same
document delivered again and dropped as its exact copy. A new document that is kept takes the cluster of the known ones
that it shares one with, of several the smallest name.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from upath import UPath

from tasks.core import documents as docs
from tasks.core import engine, events
from tasks.dedup.components import Labels, largest
from tasks.dedup.config import DedupConfig
from tasks.dedup.corpus import Corpus, read_corpus
from tasks.dedup.known import check_known
from tasks.dedup.verdict import EXACT, NEAR, Verdict, judge

VERSION = 1


@dataclass(frozen=True)
class DedupResult:
    """What was found."""

    num_known: int
    """Documents that were known; 0 without ``known``."""
    num_in: int
    """Documents that came in, the known ones not counted."""
    num_out: int
    """Documents of the artifact: the known ones and those that came in and were not dropped."""
    num_exact: int
    """Documents dropped because the one kept has the very same text."""
    num_near: int
    """Documents dropped because the one kept is a near-copy."""
    num_candidates: int
    """Pairs that agreed on a band and were compared exactly."""
    num_verified: int
    """Pairs of those whose exact similarity reaches the threshold."""
    largest_group: int
    """Documents in the largest group of which one was kept."""
    num_clusters: int
    """Clusters of the kept documents, for the split."""
    largest_cluster: int
    """Kept documents in the largest cluster."""


def run(config: DedupConfig, documents: UPath, known: UPath | None = None, *, out: UPath) -> DedupResult:
    """Write the kept documents with a ``cluster`` column, and what was dropped, and for which one, to ``report/``.

    Raises:
        DataError: when there is no document at all, or the known ones have another number of shards or other columns.
    """
    if known:
        check_known(known, documents)
    corpus = read_corpus(config, documents, known)
    verdict = judge(config, corpus)
    write(corpus, verdict, out)
    result = _result(verdict, corpus.num_known)
    events.drop(EXACT, result.num_exact)
    events.drop(NEAR, result.num_near)
    return result


def _result(verdict: Verdict, num_known: int) -> DedupResult:
    clusters = verdict.clusters.filter(pa.array(verdict.reasons == "")).dictionary_encode().indices.to_numpy()
    return DedupResult(
        num_known=num_known,
        num_in=len(verdict.kept) - num_known,
        num_out=len(clusters),
        num_exact=int((verdict.reasons == EXACT).sum()),
        num_near=int((verdict.reasons == NEAR).sum()),
        num_candidates=verdict.num_candidates,
        num_verified=verdict.num_verified,
        largest_group=largest(verdict.kept),
        num_clusters=int(clusters.max()) + 1,
        largest_cluster=largest(clusters),
    )


def write(corpus: Corpus, verdict: Verdict, out: UPath) -> None:
    """Write kept and dropped documents, shard by shard; the known ones are copied."""
    *known, documents = corpus.artifacts
    shards, row = docs.shards_of(documents), corpus.num_known
    before = [docs.shards_of(one) for one in known]
    for shard, path in enumerate(shards):
        table = docs.read_shard(path)
        numbers = corpus.numbers[row : row + table.num_rows]
        row += table.num_rows
        kept, dropped = engine.split_dropped(_judged(table, numbers, corpus, verdict))
        kept = kept.drop_columns(["kept_id", "similarity"])
        docs.write_shard(out, shard, _appended([docs.read_shard(one[shard]) for one in before], kept))
        engine.write_dropped(out, shard, dropped)
        events.progress(shard + 1, len(shards), "shards written")


def _judged(table: pa.Table, numbers: Labels, corpus: Corpus, verdict: Verdict) -> pa.Table:
    return (
        table.append_column("cluster", verdict.clusters.take(pa.array(numbers)))
        .append_column("kept_id", corpus.ids.take(pa.array(verdict.kept[numbers])))
        .append_column("similarity", pa.array(verdict.similarity[numbers]))
        .append_column(engine.REASON, pa.array(verdict.reasons[numbers].tolist(), pa.string()))
    )


def _appended(known: list[pa.Table], new: pa.Table) -> pa.Table:
    """New rows below the known ones, if any, in their columns' order."""
    return pa.concat_tables([*known, new.select(known[0].column_names).cast(known[0].schema)]) if known else new
