"""The n-gram models are the distributions their papers define, on any history."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

from tasks.lm.ngram import FALLBACK_DISCOUNTS, KneserNey, Unigram

EOS = 0


class PlainKneserNey:
    """The formulas of Chen and Goodman (1998), read aloud with dictionaries: the witness."""

    def __init__(self, documents, vocab_size, order):
        self.vocab_size, self.order = vocab_size, order
        occurrences = self._occurrences(documents)
        self.counts = {n: self._continuations(occurrences[n + 1], occurrences[n]) for n in range(1, order)}
        self.counts[order] = occurrences[order]
        self.discounts = {n: self._discounts(n) for n in range(1, order + 1)}
        self.followers = defaultdict(Counter)
        for n, counts in self.counts.items():
            for gram, count in counts.items():
                self.followers[n, gram[:-1]][gram[-1]] = count

    def _occurrences(self, documents):
        found = defaultdict(Counter)
        for document in documents:
            padded = (EOS, *document, EOS)
            for end in range(2, len(padded) + 1):
                for n in range(1, min(self.order, end) + 1):
                    found[n][padded[end - n : end]] += 1
        return found

    @staticmethod
    def _continuations(longer, same):
        """In how many distinct contexts each n-gram stands; nothing stands before a document's first n-gram."""
        before = defaultdict(set)
        for gram in longer:
            before[gram[1:]].add(gram[0])
        at_start = {gram: count for gram, count in same.items() if len(gram) > 1 and gram[0] == EOS}
        return {gram: len(left) for gram, left in before.items()} | at_start

    def _discounts(self, n):
        of = Counter(self.counts[n].values())
        if not all(of[k] for k in (1, 2, 3, 4)):
            return (0.5, 1.0, 1.5)
        y = of[1] / (of[1] + 2 * of[2])
        found = tuple(k - (k + 1) * y * of[k + 1] / of[k] for k in (1, 2, 3))
        return found if all(0 <= d <= k for k, d in zip((1, 2, 3), found, strict=True)) else (0.5, 1.0, 1.5)

    def probability(self, word, history):
        """p(word | history), history a tuple of at most order - 1 tokens."""
        n = len(history) + 1
        lower = 1 / self.vocab_size if n == 1 else self.probability(word, history[1:])
        followers = self.followers.get((n, history))
        if not followers:
            return lower
        discount = lambda count: (0.0, *self.discounts[n])[min(count, 3)]  # noqa: E731
        left_over = sum(discount(count) for count in followers.values())
        count = followers.get(word, 0)
        return (count - discount(count) + left_over * lower) / sum(followers.values())

    def bits(self, documents):
        found = []
        for document in documents:
            padded = (EOS, *document, EOS)
            for place in range(1, len(padded)):
                history = padded[max(0, place - self.order + 1) : place]
                found.append(-np.log2(self.probability(padded[place], history)))
        return np.array(found)


def stream(documents):
    return np.array([token for document in documents for token in (*document, EOS)], dtype=np.int64)


def random_documents(seed, count, vocab_size=12, longest=30):
    """Documents of a skewed random walk, so that n-grams of all orders recur."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(vocab_size - 3, 0.3), size=vocab_size)
    documents = []
    for _ in range(count):
        tokens = [int(rng.integers(1, vocab_size - 2))]
        for _ in range(int(rng.integers(0, longest))):
            tokens.append(1 + int(rng.choice(vocab_size - 3, p=weights[tokens[-1]])))
        documents.append(tuple(tokens))
    return documents


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_kneser_ney_equals_the_formulas_written_with_dictionaries(order):
    train, held_out = random_documents(1, 150), random_documents(2, 40)
    witness = PlainKneserNey(train, 12, order)
    model = KneserNey(stream(train), 12, EOS, order)
    np.testing.assert_allclose(model.bits(stream(held_out)), witness.bits(held_out), rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.discounts, list(witness.discounts.values()), rtol=0, atol=1e-12)


def test_the_witness_data_exercises_estimated_discounts():
    discounts = KneserNey(stream(random_documents(1, 150)), 12, EOS).discounts
    assert sum(found != FALLBACK_DISCOUNTS for found in discounts) >= 3


@pytest.mark.parametrize(
    "history",
    [(), (3,), (1, 2), (4, 3, 2, 1), (11, 11, 11, 11), (2, 2, 11, 3), (3, 11)],
    ids=["document start", "start and one", "start and two", "long", "never seen", "end seen", "holds unseen"],
)
def test_the_probabilities_of_any_history_add_up_to_one(history):
    model = KneserNey(stream(random_documents(3, 80)), 12, EOS)
    total = sum(2 ** -model.bits(np.array([*history, word]))[len(history)] for word in range(12))
    assert total == pytest.approx(1, abs=1e-12)


def test_no_history_reaches_into_the_document_before():
    model = KneserNey(stream(random_documents(4, 60)), 12, EOS)
    first, second = (1, 2, 3), (2, 1, 4, 2)
    together = model.bits(stream([first, second]))
    np.testing.assert_array_equal(together[len(first) + 1 :], model.bits(stream([second])))


def test_order_of_documents_does_not_matter():
    documents = random_documents(5, 60)
    held_out = stream(random_documents(6, 10))
    one, other = (KneserNey(stream(docs), 12, EOS).bits(held_out) for docs in (documents, documents[::-1]))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


def test_discounts_fall_back_where_counts_of_counts_are_missing():
    model = KneserNey(np.array([1, 2, 1, 2, EOS]), 4, EOS)
    assert model.discounts == [FALLBACK_DISCOUNTS] * 5


def test_discounts_outside_their_range_fall_back():
    # counts of counts 1, 1, 9, 1 give D2 = 2 - 3 · (1/3) · 9 = -7
    counts = [1, 2, *[3] * 9, 4]
    words = [word for word, count in enumerate(counts, start=1) for _ in range(count)]
    assert KneserNey(stream([words]), 16, EOS, order=1).discounts == [FALLBACK_DISCOUNTS]


def test_a_vocabulary_of_many_tokens_does_not_overflow_the_keys():
    tokens = np.random.default_rng(7).integers(1, 200_000, size=600)
    documents = [tuple(int(one) for one in part) for part in np.split(tokens, 6)]
    model, witness = KneserNey(stream(documents), 200_000, EOS), PlainKneserNey(documents, 200_000, 5)
    np.testing.assert_allclose(model.bits(stream(documents)), witness.bits(documents), rtol=0, atol=1e-9)


def test_a_longer_history_helps_where_text_repeats():
    text = (1, 2, 3, 1, 2, 4) * 50
    bits = [KneserNey(stream([text]), 8, EOS, order).bits(stream([text])).mean() for order in (1, 3, 5)]
    assert bits[0] > 2 * bits[1] > 2 * bits[2]


def test_unigram_is_add_one_and_adds_up_to_one():
    model = Unigram([1, 1, 1, 2, EOS], vocab_size=5)
    probability = 2 ** -model.bits(np.arange(5))
    np.testing.assert_allclose(probability, np.array([2, 4, 2, 1, 1]) / 10)


def test_no_training_tokens_are_refused():
    with pytest.raises(ValueError, match="no tokens"):
        KneserNey(np.array([], dtype=np.int64), 4, EOS)


@pytest.mark.parametrize("make", [lambda ids: Unigram(ids, 4), lambda ids: KneserNey(ids, 4, EOS)])
def test_ids_outside_the_vocabulary_are_refused(make):
    with pytest.raises(ValueError, match="from 1 to 4 in a vocabulary of 4"):
        make([1, 4])


def test_no_held_out_tokens_need_no_bits():
    assert len(KneserNey([1, 2, EOS], 4, EOS).bits(np.array([], dtype=np.int64))) == 0
