"""Two n-gram models to measure a neural one against: a unigram, and interpolated modified Kneser-Ney.

Both read a *stream*: documents back to back, each ended by ``eos_id``. Every token of the stream is predicted
once, the closing ``eos_id`` too. A history never reaches into the document before: it ends at the ``eos_id`` in
front of the document (before the first one, an implied ``eos_id``), which is what a language model is given too.

Array names: ``_N`` tokens of a stream, ``_G`` distinct n-grams of one order, ``_H`` distinct histories of one order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)
"""Discounts where the counts of counts of an order cannot give them, as KenLM's ``--discount_fallback`` has them."""

UNSEEN = -1


class Unigram:
    """Add-one smoothed unigram: ``p(w) = (count(w) + 1) / (N + vocab_size)``, a distribution over all ids."""

    def __init__(self, stream_N: npt.ArrayLike, vocab_size: int) -> None:
        counts = np.bincount(_checked(stream_N, vocab_size), minlength=vocab_size)
        self._bits: Floats = -np.log2((counts + 1) / (counts.sum() + vocab_size))

    def bits(self, stream_N: npt.ArrayLike) -> Floats:
        """Bits it takes to write each token of the stream; shape ``(N,)``."""
        return self._bits[_checked(stream_N, len(self._bits))]


@dataclass(frozen=True)
class _Order:
    """What was counted of the n-grams of one order: arrays by n-gram, and ``backoff`` by history."""

    keys: Ints
    """``history id * vocab_size + word``, ascending; the position in it is the n-gram's id."""
    discounted: Floats
    """``count - discount(count)``, over the history's total: the n-gram's own share of its history's mass."""
    backoff: Floats
    """The mass each history leaves to the lower order; 1 for a history nothing followed."""
    discounts: tuple[float, float, float]


class KneserNey:
    """Interpolated modified Kneser-Ney model (Chen and Goodman, TR-10-98, 1998).

    The highest order counts occurrences. A lower order counts how many distinct tokens an n-gram comes after;
    n-grams at a document's start, which nothing precedes, keep their occurrences, as in KenLM. Each order has
    three discounts (for counts 1, 2 and 3 or more) from its counts of counts. The unigram is interpolated with
    the uniform distribution, so every id has a probability and each history's probabilities add up to 1.

    N-grams are identified by number: an n-gram's key is its history's number and its last word, so any order
    fits 64 bits and counting is a sort.

    Args:
        stream_N: training documents, back to back, each ended by ``eos_id``.
        vocab_size: ids are below it.
        order: length of the longest n-gram.

    Raises:
        ValueError: when the stream is empty or holds an id outside the vocabulary.
    """

    def __init__(self, stream_N: npt.ArrayLike, vocab_size: int, eos_id: int, order: int = 5) -> None:
        tokens = _checked(stream_N, vocab_size)
        if not len(tokens):
            raise ValueError("cannot train an n-gram model on no tokens")
        self.vocab_size, self.eos_id, self.order = vocab_size, eos_id, order
        history_N = _history_lengths(tokens, eos_id)
        ranks = list(_rank(tokens, history_N, vocab_size, eos_id, order))
        self._orders = [
            _counted(ranks[n], ranks[n + 1] if n + 1 < order else None, history_N == n, vocab_size)
            for n in range(order)
        ]

    @property
    def discounts(self) -> list[tuple[float, float, float]]:
        """The three discounts of each order, unigrams first."""
        return [one.discounts for one in self._orders]

    def bits(self, stream_N: npt.ArrayLike) -> Floats:
        """Bits it takes to write each token of the stream, documents each ended by ``eos_id``; shape ``(N,)``."""
        tokens = _checked(stream_N, self.vocab_size)
        probability: Floats = np.full(len(tokens), 1 / self.vocab_size)
        histories: Ints = np.zeros(len(tokens), np.int64)
        history_N = _history_lengths(tokens, self.eos_id)
        for n, counted in enumerate(self._orders):
            histories = np.where(history_N >= n, histories, UNSEEN)
            grams = _find(counted.keys, _keys(histories, tokens, self.vocab_size))
            known = histories != UNSEEN
            probability[known] *= counted.backoff[histories[known]]
            seen = grams != UNSEEN
            probability[seen] += counted.discounted[grams[seen]]
            histories = _next_histories(n, grams, tokens, self.eos_id)
        return -np.log2(probability)


@dataclass(frozen=True)
class _Ranked:
    """The distinct n-grams of one order in the training stream: arrays by n-gram, and ``ids`` by position."""

    keys: Ints
    example: Ints
    """A position of the stream where each n-gram ends."""
    ids: Ints
    """The n-gram that ends at each position; ``UNSEEN`` where the document is too young for one."""
    num_histories: int


def _checked(stream_N: npt.ArrayLike, vocab_size: int) -> Ints:
    tokens = np.asarray(stream_N, dtype=np.int64)
    if len(tokens) and (int(tokens.min()) < 0 or int(tokens.max()) >= vocab_size):
        raise ValueError(f"token ids from {tokens.min()} to {tokens.max()} in a vocabulary of {vocab_size}")
    return tokens


def _history_lengths(tokens_N: Ints, eos_id: int) -> Ints:
    """How many tokens of the own document precede each token, counting the ``eos_id`` in front of it; from 1."""
    position = np.arange(len(tokens_N), dtype=np.int64)
    start_after = _shifted(np.where(tokens_N == eos_id, position, UNSEEN), UNSEEN)
    return position - np.maximum.accumulate(start_after)


def _shifted(values_N: Ints, first: int) -> Ints:
    """The value one position earlier; ``first`` at the start."""
    moved = np.empty_like(values_N)
    moved[:1] = first
    moved[1:] = values_N[:-1]
    return moved


def _keys(histories_N: Ints, tokens_N: Ints, vocab_size: int) -> Ints:
    return np.where(histories_N == UNSEEN, UNSEEN, histories_N * vocab_size + tokens_N)


def _next_histories(n: int, grams_N: Ints, tokens_N: Ints, eos_id: int) -> Ints:
    """Number of the history of ``n + 1`` tokens before each token: the n-gram that ends one token earlier.

    A history of one token is numbered by the token itself, since the ``eos_id`` in front of a document is a
    history without being a counted token.
    """
    return _shifted(tokens_N, eos_id) if n == 0 else _shifted(grams_N, UNSEEN)


def _rank(tokens: Ints, history_N: Ints, vocab_size: int, eos_id: int, order: int) -> Iterator[_Ranked]:
    """Number the distinct n-grams of each order, unigrams first."""
    histories, num_histories = np.zeros(len(tokens), np.int64), 1
    for n in range(order):
        histories = np.where(history_N >= n, histories, UNSEEN)
        ranked = _distinct(_keys(histories, tokens, vocab_size), num_histories)
        yield ranked
        histories = _next_histories(n, ranked.ids, tokens, eos_id)
        num_histories = vocab_size if n == 0 else len(ranked.keys)


def _distinct(keys_N: Ints, num_histories: int) -> _Ranked:
    positions = np.flatnonzero(keys_N != UNSEEN)
    by_key = positions[np.argsort(keys_N[positions])]
    sorted_keys = keys_N[by_key]
    first = np.ones(len(by_key), np.bool_)
    first[1:] = sorted_keys[1:] != sorted_keys[:-1]
    ids = np.full(len(keys_N), UNSEEN, np.int64)
    ids[by_key] = np.cumsum(first) - 1
    return _Ranked(sorted_keys[first], by_key[first], ids, num_histories)


def _counted(ranked: _Ranked, higher: _Ranked | None, at_start_N: npt.NDArray[np.bool_], vocab_size: int) -> _Order:
    """Counts, discounts and back-off masses of one order; ``higher`` is the order above, None for the highest.

    ``at_start_N`` marks the positions where an n-gram of this order reaches back to its document's start.
    """
    counted = ranked.ids[ranked.ids != UNSEEN]
    if higher is not None:
        counted = np.concatenate([ranked.ids[higher.example], ranked.ids[at_start_N]])
    count_G = np.bincount(counted, minlength=len(ranked.keys))
    discounts = _discounts(count_G)
    discount_G = np.array([0.0, *discounts])[np.minimum(count_G, 3)]
    history_G = ranked.keys // vocab_size
    total_H = np.bincount(history_G, weights=count_G, minlength=ranked.num_histories)
    left_H = np.bincount(history_G, weights=discount_G, minlength=ranked.num_histories)
    backoff_H = np.divide(left_H, total_H, out=np.ones(ranked.num_histories), where=total_H > 0)
    return _Order(ranked.keys, (count_G - discount_G) / total_H[history_G], backoff_H, discounts)


def _discounts(count_G: npt.NDArray[Any]) -> tuple[float, float, float]:
    """D1, D2 and D3+ from the counts of counts (Chen and Goodman 1998).

    Where one of the first four counts of counts is zero, or a discount falls outside ``[0, k]``, the formulas
    mean nothing (tiny data) and :data:`FALLBACK_DISCOUNTS` are used, as KenLM does when told to.
    """
    n1, n2, n3, n4 = (int(np.count_nonzero(count_G == k)) for k in (1, 2, 3, 4))
    if not (n1 and n2 and n3 and n4):
        return FALLBACK_DISCOUNTS
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return found if all(0 <= d <= k for k, d in enumerate(found, start=1)) else FALLBACK_DISCOUNTS


def _find(keys_G: Ints, wanted_N: Ints) -> Ints:
    """Position of each wanted key among ascending ``keys_G``; ``UNSEEN`` for one that is not there."""
    position = np.minimum(np.searchsorted(keys_G, wanted_N), len(keys_G) - 1)
    return np.where((wanted_N != UNSEEN) & (keys_G[position] == wanted_N), position, UNSEEN)
