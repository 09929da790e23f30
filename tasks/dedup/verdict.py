"""Which document is kept for which, how similar they are, and what belongs to one cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from upath import UPath

from tasks.dedup.candidates import Pairs, candidate_pairs
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
    clusters: Labels
    """The smallest number of a kept document in its cluster."""
    num_candidates: int
    num_verified: int


def judge(config: DedupConfig, documents: UPath, corpus: Corpus) -> Verdict:
    """Decide for every document which one is kept for it."""
    exact = exact_groups(corpus)
    pairs = _candidates(config, corpus, exact)
    sets = read_sets(config, documents, corpus, np.unique(pairs))
    similarity = jaccard(pairs, *sets)
    copies = pairs[similarity >= config.threshold]
    same_text = np.stack([exact, np.arange(len(corpus))], axis=1)
    kept = keep_one(components(len(corpus), np.concatenate([same_text, copies])), corpus.num_chars)
    related = np.concatenate([same_text, pairs[similarity >= config.cluster_threshold], corpus.same_side])
    return Verdict(
        kept=kept,
        similarity=_similarity_to_kept(exact, kept, sets),
        reasons=np.where(kept == np.arange(len(kept)), "", np.where(exact == exact[kept], EXACT, NEAR)),
        clusters=_named_by_kept(components(len(corpus), related), kept),
        num_candidates=len(pairs),
        num_verified=len(copies),
    )


def exact_groups(corpus: Corpus) -> Labels:
    """For each document the first one with the same text; an empty text stands for itself."""
    _, first, inverse = np.unique(corpus.digests, return_index=True, return_inverse=True)
    return np.where(corpus.num_chars > 0, first[inverse], np.arange(len(corpus)))


def keep_one(groups: Labels, num_chars: npt.NDArray[np.int64]) -> Labels:
    """For each document the one kept of its group: the longest text, of equally long ones the smallest number."""
    best_first = np.lexsort((np.arange(len(groups)), -num_chars, groups))
    _, first, inverse = np.unique(groups[best_first], return_index=True, return_inverse=True)
    kept = np.empty(len(groups), np.int64)
    kept[best_first] = best_first[first][inverse]
    return kept


def _candidates(config: DedupConfig, corpus: Corpus, exact: Labels) -> Pairs:
    """Candidate pairs among the documents that stand for their text and have a word."""
    compared = np.flatnonzero((exact == np.arange(len(corpus))) & corpus.have_words())
    return compared[candidate_pairs(corpus.signatures[compared], config.num_bands, config.rows_per_band)]


def _similarity_to_kept(exact: Labels, kept: Labels, sets: tuple[Hashes, Offsets]) -> npt.NDArray[np.float64]:
    """1 where the texts are the same. Only documents that stand for their text have a set, so those are compared."""
    differs = exact != exact[kept]
    found = np.ones(len(kept))
    found[differs] = jaccard(np.stack([exact, exact[kept]], axis=1)[differs], *sets)
    return found


def _named_by_kept(clusters: Labels, kept: Labels) -> Labels:
    """The same clusters, each named by the smallest number of a kept document in it.

    A document and the one kept for it always share a cluster, since copies are more alike than a cluster asks for.
    """
    smallest = np.full(len(kept), len(kept), np.int64)
    np.minimum.at(smallest, clusters, kept)
    return smallest[clusters]
