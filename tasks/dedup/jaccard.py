"""Exact Jaccard similarity of shingle sets.

"Exact" up to a collision of 64-bit hashes: for two documents of a thousand shingles, one chance in 10^13.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.dedup.candidates import Pairs
from tasks.dedup.shingles import Hashes, Offsets
from tasks.text.kernel import kernel


def jaccard(pairs: Pairs, hashes: Hashes, offsets: Offsets) -> npt.NDArray[np.float64]:
    """Size of the intersection over size of the union, for each pair of documents.

    ``hashes[offsets[i]:offsets[i + 1]]`` are the distinct shingles of document ``i``, sorted. Two empty sets are
    not similar: 0.
    """
    found: npt.NDArray[np.float64] = _jaccard(pairs, hashes, offsets)
    return found


@kernel
def _jaccard(pairs: Any, hashes: Any, offsets: Any) -> Any:
    found = np.zeros(len(pairs), np.float64)
    for pair in range(len(pairs)):
        left, left_end = offsets[pairs[pair, 0]], offsets[pairs[pair, 0] + 1]
        right, right_end = offsets[pairs[pair, 1]], offsets[pairs[pair, 1] + 1]
        total, shared = (left_end - left) + (right_end - right), 0
        while left < left_end and right < right_end:
            a, b = hashes[left], hashes[right]
            shared += a == b
            left += a <= b
            right += b <= a
        if total:
            found[pair] = shared / (total - shared)
    return found
