"""A mixture is a function from one integer to a sample, in the proportions asked for."""

import random

import numpy as np
import pytest

from tasks.core.errors import ConfigError, DataError
from tasks.lm.mixture import Mixture, deviations, shuffled, tree_of, whole_weights
from tasks.lm.token_shards import TokenShards
from tests.shards.stored import store_tokens

LENGTH = 4
SIZES = (37, 5, 120)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """Three datasets whose tokens say which they are and where."""
    made = []
    for number, size in enumerate(SIZES):
        folder = tmp_path_factory.mktemp(f"dataset-{number}")
        tokens = 1000 * number + np.arange(size * LENGTH + 1)
        made.append(TokenShards(store_tokens(folder, {"train": [tokens], "test": []}, vocab_size=5000), "train"))
    return made


def mixture_of(datasets, weights, seed=0):
    return Mixture(datasets[: len(weights)], weights, sequence_length=LENGTH, seed=seed)


WEIGHTS = [[1], [0.5, 0.5], [0.9, 0.1], [1, 1, 1], [0.7, 0.2, 0.1], [5, 0.001, 2], [1e-3, 1, 1e3]]


@pytest.mark.parametrize("weights", WEIGHTS)
def test_every_prefix_holds_the_share_of_each_dataset_within_the_bound(datasets, weights):
    mixture = mixture_of(datasets, weights)
    dataset = mixture.places(np.arange(5000)).dataset
    number = np.cumsum(dataset[:, None] == np.arange(len(weights)), axis=0)
    share = np.arange(1, 5001)[:, None] * (np.array(weights) / sum(weights))
    assert np.abs(number - share).max() <= mixture.bound + 1e-6


def test_the_bound_is_below_two_samples_whatever_the_weights():
    draw, bounds = random.Random(0), []
    for _ in range(300):
        weights = [draw.choice([1, 10, 1e-4]) * draw.random() ** draw.choice([1, 5]) + 1e-7 for _ in range(40)]
        bounds.append(max(deviations(tree_of(whole_weights(weights[: draw.randint(2, 40)])))))
    assert min(bounds) >= 0.5
    assert max(bounds) < 2


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("num_samples", [0, 1, 17, 999])
def test_the_numbers_known_beforehand_are_those_that_come(datasets, weights, num_samples):
    mixture = mixture_of(datasets, weights)
    dataset = mixture.places(np.arange(num_samples)).dataset
    assert mixture.counts(num_samples) == np.bincount(dataset, minlength=len(weights)).tolist()


@pytest.mark.parametrize("weights", [[1, 1, 1], [0.7, 0.2, 0.1], [1, 30, 3]])
def test_every_sample_comes_once_in_each_epoch_of_its_dataset_in_an_order_of_its_own(datasets, weights):
    places = mixture_of(datasets, weights).places(np.arange(3000))
    for number, size in enumerate(SIZES):
        samples = places.sample[places.dataset == number]
        epochs = places.epoch[places.dataset == number]
        np.testing.assert_array_equal(epochs, np.arange(len(samples)) // size)
        whole = samples[: len(samples) // size * size].reshape(-1, size)
        assert (np.sort(whole, axis=1) == np.arange(size)).all()
        assert len(samples) < 2 * size or size < 10 or len(np.unique(whole, axis=0)) == len(whole)


def test_a_sample_is_the_one_of_its_dataset(datasets):
    mixture = mixture_of(datasets, [0.5, 0.2, 0.3])
    indices = np.random.default_rng(0).integers(0, 10**6, 200)
    places = mixture.places(indices)
    expected = [datasets[one].sample(at, LENGTH) for one, at in zip(places.dataset, places.sample, strict=True)]
    np.testing.assert_array_equal(mixture.samples(indices), expected)


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_any_number_of_processes_read_the_same_samples(datasets, world_size, batch_size):
    mixture = mixture_of(datasets, [0.6, 0.1, 0.3])
    parts = [list(mixture.batches(100, 160, batch_size, rank=one, world_size=world_size)) for one in range(world_size)]
    found = np.concatenate([row for part in parts for row in part])
    alone = mixture.samples(np.arange(100, 160))
    assert sorted(map(tuple, found)) == sorted(map(tuple, alone))
    assert np.array_equal(np.concatenate(parts[0])[:2], alone[[0, world_size]])


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 3), (3, 1)])
def test_a_run_goes_on_from_one_integer_with_another_number_of_processes(datasets, before, after):
    first, second = (mixture_of(datasets, [0.6, 0.1, 0.3]) for _ in range(2))
    found = [
        row
        for mixture, start, stop, size in ((first, 0, 72, before), (second, 72, 144, after))
        for rank in range(size)
        for batch in mixture.batches(start, stop, 2, rank=rank, world_size=size)
        for row in batch
    ]
    assert sorted(map(tuple, found)) == sorted(map(tuple, first.samples(np.arange(144))))


def test_a_sample_far_away_is_found_as_fast_as_the_first(datasets):
    places = mixture_of(datasets, [0.6, 0.1, 0.3]).places([10**15, 10**15 + 1])
    assert places.epoch.min() > 10**12
    assert (places.sample < np.array(SIZES)[places.dataset]).all()


def test_another_seed_is_another_order_and_the_same_seed_the_same(datasets):
    one, same, other = (mixture_of(datasets, [1, 1, 1], seed).places(np.arange(300)) for seed in (0, 0, 1))
    assert np.array_equal(one.sample, same.sample)
    assert not np.array_equal(one.sample, other.sample)
    assert np.array_equal(one.dataset, other.dataset)


def test_the_order_never_changes_with_versions(datasets):
    places = mixture_of(datasets, [0.5, 0.2, 0.3], seed=7).places(np.arange(10))
    assert places.dataset.tolist() == [0, 2, 0, 1, 0, 2, 0, 1, 0, 2]
    assert places.sample.tolist() == [35, 50, 24, 4, 15, 111, 26, 1, 9, 51]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 16, 17, 1000, 4097])
def test_every_key_permutes(size):
    orders = [shuffled(np.arange(size), size, np.full(size, key, np.uint64)) for key in (0, 1, 2**63 + 5)]
    assert all(np.array_equal(np.sort(order), np.arange(size)) for order in orders)
    assert size < 100 or len({order.tobytes() for order in orders}) == 3


def test_a_permutation_has_no_pattern():
    """Neighbours and fixed points are as many as chance gives: one each, with a standard deviation of one."""
    size = 10_000
    for key in range(5):
        order = shuffled(np.arange(size), size, np.full(size, key, np.uint64))
        assert (order == np.arange(size)).sum() < 7
        assert (np.diff(order) == 1).sum() < 7
        assert abs(np.corrcoef(order, np.arange(size))[0, 1]) < 0.04


def test_weights_are_taken_as_they_are_written():
    assert whole_weights([0.7, 0.3]) == [7, 3]
    assert whole_weights([2, 4, 6]) == [1, 2, 3]
    tiny = whole_weights([1, 1e-12, 1 / 3])
    assert min(tiny) == 1
    assert sum(tiny) <= 2**30


@pytest.mark.parametrize("weights", [[], [1, 0], [1, -1], [float("nan")], [float("inf"), 1], [1, 2, 3, 4]])
def test_weights_that_are_none_are_refused(datasets, weights):
    with pytest.raises(ConfigError, match="weights"):
        Mixture(datasets, weights, sequence_length=LENGTH, seed=0)


def test_a_dataset_without_a_sample_is_named(datasets):
    empty = TokenShards(datasets[0].folder, "test")
    with pytest.raises(DataError, match="no whole sample in test"):
        Mixture([datasets[1], empty], [1, 1], sequence_length=LENGTH, seed=0)


def test_datasets_of_two_vocabularies_do_not_mix(datasets, tmp_path):
    other = TokenShards(store_tokens(tmp_path, {"train": [np.arange(50)]}, vocab_size=77), "train")
    with pytest.raises(DataError, match="another vocabulary"):
        Mixture([datasets[0], other], [1, 1], sequence_length=LENGTH, seed=0)
