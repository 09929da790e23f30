import random

import pytest

from tasks.dedup.shingles import shingle_hash, shingle_hash32, shingle_sets, shingles_of
from tasks.text.words import words

CHARACTERS = "abcZÖÄščćđİΣς'’\u0301\u0345_ .,-12你好日ひ々𠀀🙂é한\u3007"


def strings_of(text: str, size: int) -> list[bytes]:
    found = words(text)
    return [" ".join(found[at : at + size]).encode() for at in range(max(len(found) - size + 1, min(len(found), 1)))]


@pytest.mark.parametrize("size", [1, 3, 5])
def test_the_kernel_hashes_the_words_that_the_regular_expression_finds(size):
    draw = random.Random(size)
    texts = ["".join(draw.choices(CHARACTERS, k=draw.randint(0, 60))) for _ in range(2000)]
    found = shingles_of(texts, size)
    for at, text in enumerate(texts):
        assert found.of(at).tolist() == [shingle_hash(one) for one in strings_of(text, size)], ascii(text)


def test_the_hash_is_fnv_1a():
    assert shingle_hash(b"") == 0xCBF29CE484222325
    assert shingle_hash(b"a") == 0xAF63DC4C8601EC8C  # published test vectors of FNV-1a, 64 bits
    assert shingle_hash(b"foobar") == 0x85944171F73967E8
    assert shingle_hash32(b"foobar") == 0x85944171 ^ 0xF73967E8


def test_a_text_shorter_than_the_shingle_is_one_shingle():
    assert [len(one) for one in shingle_sets(["one two", "一二三", "a b c d e", "a b c d e f"], 5)] == [1, 1, 1, 2]


def test_a_text_without_words_has_no_shingle():
    assert [len(one) for one in shingle_sets(["", " \n", "…!?", "🙂"], 5)] == [0, 0, 0, 0]


def test_repeated_shingles_count_once_in_the_set():
    (found,) = shingle_sets(["la la la la la la la la"], 3)
    assert found.tolist() == [shingle_hash(b"la la la")]
