"""Which document is kept for which, how similar they are, and what belongs to one cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.dedup.candidates import Pairs, candidate_pairs
from tasks.dedup.clusters import cluster_names
from tasks.dedup.components import Labels, components
from tasks.dedup.config import DedupConfig
from tasks.dedup.corpus import Corpus, read_sets
from tasks.dedup.jaccard import jaccard
from tasks.dedup.shingles import Hashes, Offsets

EXACT, NEAR = "exact_copy", "near_copy"


@dataclass(frozen=True)
class Verdict:
    """For each document, by number."""

    kept: Labels
    """The number of the document kept for it, its own when it is kept itself."""
    similarity: npt.NDArray[np.float64]
    """Exact Jaccard similarity to that one."""
    reasons: npt.NDArray[np.str_]
    """Why it is dropped, empty when it is kept."""
    clusters: pa.Array
    """The name of its cluster."""
    num_candidates: int
    num_verified: int


def judge(config: DedupConfig, corpus: Corpus) -> Verdict:
    """Decide for every document which one is kept for it; a known one is always kept.

    Two known documents are not compared: they were judged before, and what one of them resembles now says nothing
    about what the other does.
    """
    exact = exact_groups(corpus)
    pairs = _candidates(config, corpus, exact)
    sets = read_sets(config, corpus, np.unique(pairs))
    similarity = jaccard(pairs, *sets)
    copies = pairs[similarity >= config.threshold]
    same_text = np.stack([exact, np.arange(len(corpus))], axis=1)
    groups = components(len(corpus), np.concatenate([same_text, copies]))
    kept = keep_one(groups, corpus.num_chars, corpus.num_known)
    kept = np.where(exact < corpus.num_known, exact, kept)
    alike, same_side = pairs[similarity >= config.cluster_threshold], _judgeable(corpus.same_side, corpus)
    clusters = components(len(corpus), np.concatenate([same_text, alike, same_side]))
    return Verdict(
        kept=kept,
        similarity=_similarity_to_kept(exact, kept, sets),
        reasons=np.where(kept == np.arange(len(kept)), "", np.where(exact == exact[kept], EXACT, NEAR)),
        clusters=cluster_names(clusters, kept, corpus),
        num_candidates=len(pairs),
        num_verified=len(copies),
    )


def exact_groups(corpus: Corpus) -> Labels:
    """For each document the first one with the same text; a known document and an empty text stand for themselves."""
    _, first, inverse = np.unique(corpus.digests, return_index=True, return_inverse=True)
    found: Labels = first[inverse]
    found[: corpus.num_known] = np.arange(corpus.num_known)
    return found


def keep_one(groups: Labels, num_chars: npt.NDArray[np.int64], num_known: int = 0) -> Labels:
    """For each document the one kept of its group: a known one before the others, of those the longest text, of
    equally long ones the smallest number.
    """
    numbers = np.arange(len(groups))
    best_first = np.lexsort((numbers, -num_chars, numbers >= num_known, groups))
    _, first, inverse = np.unique(groups[best_first], return_index=True, return_inverse=True)
    kept = np.empty(len(groups), np.int64)
    kept[best_first] = best_first[first][inverse]
    return kept


def _candidates(config: DedupConfig, corpus: Corpus, exact: Labels) -> Pairs:
    """Candidate pairs among the documents that stand for their text and have a word."""
    compared = np.flatnonzero((exact == np.arange(len(corpus))) & corpus.have_words())
    pairs = candidate_pairs(corpus.signatures[compared], config.num_bands, config.rows_per_band)
    return _judgeable(compared[pairs], corpus)


def _judgeable(pairs: Pairs, corpus: Corpus) -> Pairs:
    """Those of the pairs ``(smaller, larger)`` that are not of two known documents."""
    return pairs[pairs[:, 1] >= corpus.num_known]


def _similarity_to_kept(exact: Labels, kept: Labels, sets: tuple[Hashes, Offsets]) -> npt.NDArray[np.float64]:
    """1 where the texts are the same. Only documents that stand for their text have a set, so those are compared."""
    differs = exact != exact[kept]
    found = np.ones(len(kept))
    found[differs] = jaccard(np.stack([exact, exact[kept]], axis=1)[differs], *sets)
    return found
