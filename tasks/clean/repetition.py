"""How much of a text repeats itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PASSAGE_CHARS = 13


def duplicate_shares(pieces: Sequence[str]) -> tuple[float, float]:
    """Share of pieces that are copies of an earlier one, and share of the characters that stand in them."""
    if not pieces:
        return 0.0, 0.0
    counts = Counter(pieces)
    num_copies = len(pieces) - len(counts)
    copied_chars = sum((count - 1) * len(piece) for piece, count in counts.items())
    return num_copies / len(pieces), copied_chars / max(sum(map(len, pieces)), 1)


def repeated_share(text: str) -> float:
    """Share of the 13-character passages of a text, white space and case aside, that occur more than once.

    The internal duplication of ChineseWebText (Chen et al., 2023), which needs no words.
    """
    bare = "".join(text.lower().split())
    num_passages = len(bare) - PASSAGE_CHARS + 1
    if num_passages < 1:
        return 0.0
    counts = Counter(bare[start : start + PASSAGE_CHARS] for start in range(num_passages))
    return sum(count for count in counts.values() if count > 1) / num_passages


class WordNgrams:
    """The word n-grams of a text, numbered so that equal ones have equal numbers (exact: nothing is hashed)."""

    def __init__(self, words: Sequence[str]) -> None:
        table: dict[str, int] = {}
        words_W = np.array([table.setdefault(word, len(table)) for word in words], dtype=np.int64)
        self._numbers = [words_W]
        self._chars_W = np.array([len(word) for word in words], dtype=np.int64)

    def top_share(self, n: int) -> float:
        """Share of the words' characters that stand in the most frequent n-gram; 0 when none occurs twice."""
        numbers = self._numbers_of(n)
        counts = np.bincount(numbers, minlength=1)
        if counts.max() < 2:
            return 0.0
        chars = np.convolve(self._chars_W, np.ones(n, dtype=np.int64), mode="valid")
        longest = chars[counts[numbers] == counts.max()].max()
        return float(longest * counts.max() / self._chars_W.sum())

    def duplicate_share(self, n: int) -> float:
        """Share of the words' characters that stand in an n-gram which occurred before; overlaps count once."""
        numbers = self._numbers_of(n)
        first = np.unique(numbers, return_index=True)[1]
        if len(first) == len(numbers):
            return 0.0
        is_repeat = np.ones(len(numbers), dtype=bool)
        is_repeat[first] = False
        covered = np.convolve(is_repeat, np.ones(n, dtype=np.int64)) > 0
        return float(self._chars_W[covered].sum() / self._chars_W.sum())

    def _numbers_of(self, n: int) -> NDArray[np.int64]:
        """The number of the n-gram at each place; of length 0 when there are fewer words than n."""
        words_W = self._numbers[0]
        while len(self._numbers) < n:
            shorter, size = self._numbers[-1], len(self._numbers)
            if len(shorter) < 2:
                return words_W[:0]
            pairs = shorter[:-1] * len(words_W) + words_W[size:]
            self._numbers.append(np.unique(pairs, return_inverse=True)[1])
        return self._numbers[n - 1]
