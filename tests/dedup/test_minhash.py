import numpy as np
import pytest
from datasketch import MinHash, MinHashLSH

from tasks.dedup.minhash import NOTHING, signatures
from tasks.dedup.shingles import shingle_hash32, shingles_of
from tests.dedup.corpora import planted
from tests.dedup.witness import shingles

TEXTS = [*planted(60, seed=3), "短文", "春眠不觉晓,处处闻啼鸟。夜来风雨声,花落知多少。", "one", ""]


def datasketch_of(text: str, num_permutations: int = 128, seed: int = 1) -> MinHash:
    made = MinHash(num_perm=num_permutations, seed=seed, scheme="affine32", hashfunc=shingle_hash32)
    made.update_batch(one.encode() for one in shingles(text))
    return made


@pytest.mark.parametrize(("num_permutations", "seed"), [(128, 1), (64, 7)])
def test_signatures_are_those_of_datasketch_to_the_bit(num_permutations, seed):
    ours = signatures(shingles_of(TEXTS, 5), num_permutations, seed)
    theirs = [datasketch_of(text, num_permutations, seed).hashvalues for text in TEXTS]
    assert ours.dtype == np.uint32
    np.testing.assert_array_equal(ours, np.stack(theirs))


def test_datasketch_can_query_our_signatures():
    index = MinHashLSH(num_perm=128, params=(32, 4))
    for at, found in enumerate(signatures(shingles_of(TEXTS, 5), 128, 1)):
        index.insert(at, MinHash(hashvalues=found, scheme="affine32"))
    for at, text in enumerate(TEXTS):
        assert at in index.query(datasketch_of(text))
    assert index.query(datasketch_of("a text that nobody has ever put into this index")) == []


def test_a_text_without_words_has_an_empty_signature():
    assert (signatures(shingles_of([""], 5), 16, 1) == NOTHING).all()
