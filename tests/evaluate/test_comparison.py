"""A model beside the one in service: the ratio of their bits, and how far chance may have moved it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from tasks.evaluate import comparison
from tasks.evaluate.comparison import compare, ratio_interval
from tasks.evaluate.config import EvaluateConfig
from tasks.evaluate.held_out import HeldOut

EOS = 0


@pytest.fixture
def scores():
    """Bits of 300 documents of very different length for a model that is 2% better, give or take 5% a document."""
    random = np.random.default_rng(4)
    champion = random.lognormal(4.0, 1.0, 300)
    return champion * random.normal(0.98, 0.05, 300), champion


def test_the_interval_is_the_one_scipy_draws(scores):
    theirs = stats.bootstrap(
        scores, lambda model, champion, axis: model.sum(axis=axis) / champion.sum(axis=axis), paired=True,
        vectorized=True, n_resamples=20_000, method="percentile", rng=np.random.default_rng(5),
    )  # fmt: skip
    low, high = theirs.confidence_interval
    ours = ratio_interval(*scores, num_bootstrap=20_000, seed=6)
    assert ours == pytest.approx((low, high), abs=0.05 * (high - low))


def test_the_interval_covers_the_truth_nineteen_times_in_twenty():
    random, covered = np.random.default_rng(8), 0
    for seed in range(400):
        champion = random.lognormal(4.0, 0.5, 100)
        low, high = ratio_interval(champion * random.normal(1.1, 0.1, 100), champion, num_bootstrap=200, seed=seed)
        covered += low <= 1.1 <= high
    assert 0.91 < covered / 400 < 0.98


def test_pairing_tells_apart_what_unpaired_scores_do_not(scores):
    model, champion = scores
    low, high = ratio_interval(model, champion, num_bootstrap=1000, seed=1)
    assert high < 1
    shuffled = np.random.default_rng(2).permutation(champion)
    assert ratio_interval(model, shuffled, num_bootstrap=1000, seed=1)[1] > 1
    assert low > 0.96


def test_the_interval_depends_on_the_seed_alone(scores):
    first, again, other = (ratio_interval(*scores, num_bootstrap=50, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_many_documents_are_drawn_in_blocks(scores, monkeypatch):
    whole = ratio_interval(*scores, num_bootstrap=2000, seed=1)
    monkeypatch.setattr(comparison, "BLOCK_CELLS", 700)
    assert ratio_interval(*scores, num_bootstrap=2000, seed=1) == pytest.approx(whole, rel=1e-12)


def held_out_of(lengths, languages):
    tokens = np.concatenate([[*([1] * (length - 1)), EOS] for length in lengths])
    columns = {"language": languages, "num_tokens": lengths, "num_bytes": lengths}
    return HeldOut(tokens, pa.table(columns), EOS, 2)


def test_ratios_are_those_of_the_summed_bits_in_total_and_by_language():
    held_out = held_out_of([2, 3, 1], ["zh", "en", "zh"])
    model, champion = np.array([1.0, 2, 4, 8, 16, 32]), np.array([2.0, 2, 4, 4, 4, 16])
    found = compare(EvaluateConfig(num_bootstrap=50), held_out, model, champion)
    assert found["ratio"] == round(63 / 32, 5)
    assert found["by_language"] == {"en": round(28 / 12, 5), "zh": 1.75}
    assert 0.75 <= found["low"] <= found["ratio"] <= found["high"] <= 2.34
