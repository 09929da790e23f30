"""MinHash signatures that datasketch can query.

Bit for bit those of datasketch 2.0's ``MinHash(scheme="affine32", hashfunc=shingle_hash32)``: the 32-bit hash goes
through MurmurHash3's finaliser, then permutation ``k`` maps it to ``a_k * h + b_k mod 2^32`` and keeps the minimum.
MinHash: Broder, "On the resemblance and containment of documents", 1997.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from datasketch import MinHash

from tasks.dedup.shingles import Shingles
from tasks.text.kernel import kernel

Signatures = npt.NDArray[np.uint32]
NOTHING = np.uint32(2**32 - 1)
"""What a permutation holds before it saw a shingle; a text without shingles has nothing else."""


def permutations(num_permutations: int, seed: int) -> Signatures:
    """datasketch's own multipliers and increments; shape ``(2, num_permutations)``."""
    drawn = MinHash(num_perm=num_permutations, seed=seed, scheme="affine32").permutations
    return np.asarray(drawn, np.uint32)


def signatures(shingles: Shingles, num_permutations: int, seed: int) -> Signatures:
    """One signature per text; shape ``(num_texts, num_permutations)``."""
    multipliers, increments = permutations(num_permutations, seed)
    found: Signatures = _minima(shingles.hashes, shingles.offsets, multipliers, increments)
    return found


@kernel
def _mixed(value: Any) -> Any:
    """MurmurHash3's 32-bit finaliser of a 64-bit hash folded to 32 bits."""
    h = np.uint32((value >> np.uint64(32)) ^ (value & np.uint64(0xFFFFFFFF)))
    h = np.uint32(h ^ (h >> np.uint32(16)))
    h = np.uint32(h * np.uint32(0x85EBCA6B))
    h = np.uint32(h ^ (h >> np.uint32(13)))
    h = np.uint32(h * np.uint32(0xC2B2AE35))
    return np.uint32(h ^ (h >> np.uint32(16)))


@kernel
def _minima(hashes: Any, offsets: Any, multipliers: Any, increments: Any) -> Any:
    """The casts keep the product in 32 bits, where wrapping around is the modulo and the loop becomes SIMD."""
    found = np.full((len(offsets) - 1, len(multipliers)), NOTHING, np.uint32)
    for text in range(len(offsets) - 1):
        row = found[text]
        for at in range(offsets[text], offsets[text + 1]):
            h = _mixed(hashes[at])
            for k in range(len(multipliers)):
                permuted = np.uint32(np.uint32(multipliers[k] * h) + increments[k])
                row[k] = min(row[k], permuted)
    return found
