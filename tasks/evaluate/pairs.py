"""Which held-out translation pairs are fair to ask, and what the nearest training pair would have answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from upath import UPath

from tasks.core import documents as documents_on_disk
from tasks.text.words import words

BLOCK_CELLS = 4_000_000
"""Similarities held in memory at once."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """An English text and its Chinese translation."""

    id: str
    en: str
    zh: str


@dataclass(frozen=True)
class Selection:
    """The pairs to translate, what was left out, and the training pair nearest to each."""

    chosen: list[Pair]
    nearest: list[Pair]
    """The training pair whose English is most similar to that of each chosen pair; empty without training pairs."""
    num_held_out: int
    num_short: int
    num_near_copies: int
    num_too_long: int


def read_pairs(documents: UPath, ids: AbstractSet[str]) -> list[Pair]:
    """The documents among ``ids`` whose ``meta`` holds both sides of a pair, by id."""
    found = []
    for batch in documents_on_disk.iter_batches(documents, ["id", "meta"]):
        for row in batch.to_pylist():
            if row["id"] in ids and '"zh"' in row["meta"]:
                meta = json.loads(row["meta"])
                en, zh = meta.get("en"), meta.get("zh")
                if isinstance(en, str) and isinstance(zh, str) and en.strip() and zh.strip():
                    found.append(Pair(row["id"], en.strip(), zh.strip()))
    return sorted(found, key=lambda pair: pair.id)


def select_pairs(
    held_out: Sequence[Pair],
    train: Sequence[Pair],
    *,
    num_pairs: int,
    min_words: int,
    near_copy: float,
    fits: Callable[[Pair], bool],
) -> Selection:
    """The first ``num_pairs`` by id that are long enough, unlike every training pair and fit the model.

    A pair is a near-copy when a training pair's English words or Chinese characters have at least ``near_copy``
    Jaccard similarity with its own. Ids are hashes, so their order is a fixed random one.
    """
    english = [frozenset(words(pair.en)) for pair in held_out]
    long_enough = [one for one, pair in enumerate(held_out) if len(words(pair.en)) >= min_words]
    train_english = [frozenset(words(pair.en)) for pair in train]
    similar_en, nearest = nearest_jaccard([english[one] for one in long_enough], train_english)
    similar_zh, _ = nearest_jaccard(
        [frozenset(words(held_out[one].zh)) for one in long_enough], [frozenset(words(pair.zh)) for pair in train]
    )
    unlike = np.flatnonzero(np.maximum(similar_en, similar_zh) < near_copy)
    fitting = [place for place in unlike.tolist() if fits(held_out[long_enough[place]])]
    taken = fitting[:num_pairs]
    return Selection(
        chosen=[held_out[long_enough[place]] for place in taken],
        nearest=[train[int(nearest[place])] for place in taken] if train else [],
        num_held_out=len(held_out),
        num_short=len(held_out) - len(long_enough),
        num_near_copies=len(long_enough) - len(unlike),
        num_too_long=len(unlike) - len(fitting),
    )


def nearest_jaccard(queries: Sequence[AbstractSet[str]], corpus: Sequence[AbstractSet[str]]) -> tuple[Floats, Ints]:
    """For each query set the highest exact Jaccard similarity to a set of the corpus, and the first that has it.

    Without a corpus, and for a set that shares nothing with any, similarity and position are 0.
    """
    similarity, position = np.zeros(len(queries)), np.zeros(len(queries), np.int64)
    if not queries or not corpus:
        return similarity, position
    number = {word: one for one, word in enumerate(sorted({word for words_ in corpus for word in words_}))}
    known = _incidence(corpus, number).T.tocsr()
    corpus_size = np.array([len(one) for one in corpus], dtype=np.float64)
    rows = max(1, BLOCK_CELLS // len(corpus))
    for first in range(0, len(queries), rows):
        block = queries[first : first + rows]
        shared = (_incidence(block, number) @ known).toarray()
        size = np.array([len(one) for one in block], dtype=np.float64)
        union = np.maximum(size[:, None] + corpus_size[None, :] - shared, 1)
        jaccard = shared / union
        best = jaccard.argmax(axis=1)
        position[first : first + rows] = best
        similarity[first : first + rows] = jaccard[np.arange(len(block)), best]
    return similarity, position


def _incidence(sets: Sequence[AbstractSet[str]], number: dict[str, int]) -> csr_array:
    """Sets by words, 1 where the set holds the word; words without a number are in no set of the corpus."""
    columns = [sorted(number[word] for word in one if word in number) for one in sets]
    ends = np.cumsum([0, *(len(one) for one in columns)])
    flat = np.array([column for one in columns for column in one], dtype=np.int64)
    return csr_array((np.ones(len(flat), np.float64), flat, ends), shape=(len(sets), len(number)))
