import random

import pytest

from tasks.clean.repetition import WordNgrams, duplicate_shares, repeated_share


def top_by_counting(words, n):
    """The witness: strings and lists, from the definition in Gopher's appendix."""
    grams = [tuple(words[start : start + n]) for start in range(len(words) - n + 1)]
    most = max((grams.count(gram) for gram in grams), default=0)
    if most < 2:
        return 0.0
    chars = max(sum(map(len, gram)) for gram in grams if grams.count(gram) == most)
    return most * chars / sum(map(len, words))


def duplicates_by_counting(words, n):
    covered = set()
    for start in range(len(words) - n + 1):
        gram = words[start : start + n]
        if any(words[earlier : earlier + n] == gram for earlier in range(start)):
            covered.update(range(start, start + n))
    return sum(len(words[place]) for place in covered) / max(sum(map(len, words)), 1)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_ngram_shares_agree_with_counting_by_hand(seed, n):
    source = random.Random(seed)
    vocabulary = ["a", "bb", "ccc", "dddd", "ee"][: source.randint(1, 5)]
    words = source.choices(vocabulary, k=source.randint(0, 60))
    ngrams = WordNgrams(words)
    assert ngrams.top_share(n) == pytest.approx(top_by_counting(words, n))
    assert ngrams.duplicate_share(n) == pytest.approx(duplicates_by_counting(words, n))


def test_the_order_in_which_ngrams_are_asked_for_does_not_matter():
    words = list("tobeornottobethatistobe")
    down = WordNgrams(words)
    falling = [down.duplicate_share(n) for n in (4, 3, 2)]
    assert falling == [WordNgrams(words).duplicate_share(n) for n in (4, 3, 2)]


def test_copies_are_counted_without_their_first():
    assert duplicate_shares(["aa", "b", "aa", "aa"]) == (0.5, 4 / 7)
    assert duplicate_shares([]) == (0.0, 0.0)


def test_passages_that_occur_more_than_once_are_counted_with_their_first():
    assert repeated_share("abcdefghijklm") == 0.0
    assert repeated_share("a" * 100) == 1.0
    # Thirteen characters twice with one between: 15 passages, of which the first and the last are equal.
    assert repeated_share("abcdefghijklm-abcdefghijklm") == pytest.approx(2 / 15)
    assert repeated_share("short") == 0.0
