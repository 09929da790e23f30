"""MinHash signatures from text: our kernel beside datasketch's bulk hashing of the same word shingles.

Both start from the same texts and end with the same 128 numbers per document, to the bit. Counted in CPU-seconds of
this process, so that another load on the machine does not change the ratio; our kernel is compiled beforehand.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from _lifecycle import artifacts, conclude
from datasketch import MinHash

from tasks.core.documents import read_table
from tasks.dedup.minhash import signatures
from tasks.dedup.shingles import shingle_hash32, shingles_of
from tasks.text.words import words

SHINGLE_WORDS, NUM_PERMUTATIONS, SEED, FLOOR = 5, 128, 1, 20.0


def ours(texts: list[str]) -> np.ndarray:
    return signatures(shingles_of(texts, SHINGLE_WORDS), NUM_PERMUTATIONS, SEED)


def peer(texts: list[str]) -> np.ndarray:
    made = MinHash.bulk(
        [shingles(text) for text in texts],
        num_perm=NUM_PERMUTATIONS,
        seed=SEED,
        scheme="affine32",
        hashfunc=shingle_hash32,
    )
    return np.stack([one.hashvalues for one in made])


def shingles(text: str) -> list[bytes]:
    found = words(text)
    count = max(1, len(found) - SHINGLE_WORDS + 1)
    return [" ".join(found[at : at + SHINGLE_WORDS]).encode() for at in range(count)]


def cpu_seconds(function: Callable[[list[str]], np.ndarray], texts: list[str]) -> tuple[float, np.ndarray]:
    started = time.process_time()
    found = function(texts)
    return time.process_time() - started, found


def main() -> int:
    texts = read_table(artifacts("redact")["redact"].path, ["text"])["text"].to_pylist()
    ours(texts[:10])
    pairs = [(cpu_seconds(ours, texts), cpu_seconds(peer, texts)) for _ in range(3)]
    assert all((one[1] == other[1]).all() for one, other in pairs), "the signatures differ"
    our_s, peer_s = (min(pair[side][0] for pair in pairs) for side in (0, 1))
    unit = "documents per CPU-second"
    return conclude("minhash signatures", len(texts) / our_s, len(texts) / peer_s, floor=FLOOR, unit=unit)


if __name__ == "__main__":
    sys.exit(main())
