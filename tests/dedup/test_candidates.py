from itertools import combinations

import numpy as np
import pytest
from datasketch import MinHash, MinHashLSH

from tasks.dedup.candidates import SMALL_BUCKET, candidate_pairs
from tasks.dedup.components import components
from tasks.dedup.minhash import signatures
from tasks.dedup.shingles import shingles_of
from tests.dedup.corpora import planted


def pairs_of(found: np.ndarray) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in found}


@pytest.mark.parametrize(("num_bands", "rows_per_band"), [(32, 4), (20, 6)])
def test_small_buckets_give_the_pairs_that_datasketch_finds(num_bands, rows_per_band):
    found = signatures(shingles_of(planted(200, seed=5), 5), 128, 1)
    index = MinHashLSH(num_perm=128, params=(num_bands, rows_per_band))
    sketches = [MinHash(hashvalues=one, scheme="affine32") for one in found]
    for at, sketch in enumerate(sketches):
        index.insert(at, sketch)
    theirs = {(min(at, other), max(at, other)) for at, one in enumerate(sketches) for other in index.query(one)}
    assert pairs_of(candidate_pairs(found, num_bands, rows_per_band)) == {(a, b) for a, b in theirs if a != b}


def test_a_large_bucket_gives_few_pairs_that_still_connect_it():
    same = np.ones((5000, 8), np.uint32)
    found = candidate_pairs(same, num_bands=2, rows_per_band=4)
    assert len(found) < 3 * 5000
    assert set(components(5000, found)) == {0}


def test_a_bucket_of_the_largest_small_size_gives_all_pairs():
    same = np.ones((SMALL_BUCKET, 4), np.uint32)
    assert pairs_of(candidate_pairs(same, 1, 4)) == set(combinations(range(SMALL_BUCKET), 2))


@pytest.mark.parametrize("num_documents", [0, 1])
def test_fewer_than_two_documents_have_no_pairs(num_documents):
    assert candidate_pairs(np.ones((num_documents, 128), np.uint32), 32, 4).shape == (0, 2)
