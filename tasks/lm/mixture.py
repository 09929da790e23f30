"""Several token datasets mixed by weight, without end: sample ``n`` of the mixture is a function of ``n`` alone.

So any number of processes can share it out as they like, and a run goes on from one integer. No list of samples is
kept: which dataset sample ``n`` comes from, and which of its samples that is, are computed for those ``n`` asked for.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count

import numpy as np
import numpy.typing as npt

from tasks.core.errors import ConfigError, DataError
from tasks.lm.token_shards import Tokens, TokenShards

WEIGHTS_TOTAL = 2**30
"""Whole numbers that weights are expressed in have at most this sum, so that products of two fit in 64 bits."""

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Places:
    """Where samples of a mixture are; each array has the shape of the indices asked for."""

    dataset: Tokens
    epoch: Tokens
    """How often the dataset was visited whole before."""
    sample: Tokens
    """Number of the sample in its dataset."""


@dataclass(frozen=True)
class Node:
    """A group of datasets that shares its samples out to two smaller groups in proportion to their weights."""

    weight: int
    dataset: int = -1
    """The one dataset of a leaf."""
    left: Node | None = None
    right: Node | None = None


class Mixture:
    """Samples of ``sequence_length`` inputs and one more target from several datasets, in proportion to weights.

    Every dataset is visited in a shuffled order of its own, another one in each epoch, and each of its samples once an
    epoch. Among the first ``n`` samples of the mixture, for every ``n``, the number from a dataset is within
    :attr:`bound` of ``n`` times its share.

    Raises:
        ConfigError: when there is not one weight above zero for each dataset.
        DataError: when a dataset has no sample, or their vocabularies differ.
    """

    def __init__(
        self, datasets: Sequence[TokenShards], weights: Sequence[float], *, sequence_length: int, seed: int
    ) -> None:
        self.datasets, self.sequence_length, self.seed = list(datasets), sequence_length, seed
        self.weights = whole_weights(weights)
        """Whole numbers in the proportion of the weights given."""
        if len(weights) != len(self.datasets):
            raise ConfigError(f"{len(weights)} weights for {len(self.datasets)} datasets")
        self.num_samples = np.array([one.num_samples(sequence_length) for one in self.datasets], np.int64)
        _check_alike(self.datasets, self.num_samples)
        self._root = tree_of(self.weights)
        self.bound = max(deviations(self._root))
        """Samples by which a dataset's number can differ from its share; below 2, and at most ½ for two datasets."""

    def places(self, global_indices: Sequence[int] | Tokens) -> Places:
        """Where samples of the mixture are."""
        indices = np.asarray(global_indices, np.int64)
        dataset, turn = np.empty_like(indices), np.empty_like(indices)
        _descend(self._root, np.arange(len(indices)), indices, dataset, turn)
        sizes = self.num_samples[dataset]
        epoch = turn // sizes
        sample = np.empty_like(indices)
        for one in np.unique(dataset).tolist():
            rows = dataset == one
            keys = _keys(self.seed, one, epoch[rows])
            sample[rows] = shuffled(turn[rows] % sizes[rows], int(self.num_samples[one]), keys)
        return Places(dataset, epoch, sample)

    def samples(self, global_indices: Sequence[int] | Tokens) -> Tokens:
        """Samples of the mixture; shape ``(len(global_indices), sequence_length + 1)``."""
        places = self.places(global_indices)
        filled = np.empty((len(places.dataset), self.sequence_length + 1), np.int64)
        for one in np.unique(places.dataset).tolist():
            rows = places.dataset == one
            filled[rows] = self.datasets[one].samples(places.sample[rows], self.sequence_length)
        return filled

    def batches(
        self, start: int, stop: int, batch_size: int, *, rank: int = 0, world_size: int = 1
    ) -> Iterator[Tokens]:
        """What process ``rank`` reads of samples ``[start, stop)``: every ``world_size``-th, some at a time."""
        for first in range(start + rank, stop, batch_size * world_size):
            yield self.samples(np.arange(first, min(stop, first + batch_size * world_size), world_size))

    def counts(self, num_samples: int) -> list[int]:
        """How many of the first ``num_samples`` come from each dataset."""
        return [number for _, number in sorted(_counts(self._root, num_samples))]


def whole_weights(weights: Sequence[float]) -> list[int]:
    """Whole numbers in the proportion of the weights as they are written: ``[0.7, 0.3]`` are 7 and 3.

    Exact when their sum is at most :data:`WEIGHTS_TOTAL` in lowest terms, otherwise rounded to it, which moves a share
    by less than one sample in a billion.

    Raises:
        ConfigError: when there is none, or one is not a number above zero.
    """
    if not weights or not all(math.isfinite(one) and one > 0 for one in weights):
        raise ConfigError(f"weights must be numbers above zero (got {list(weights)})")
    exact = [Fraction(str(one)) for one in weights]
    scaled = [int(one * math.lcm(*(other.denominator for other in exact))) for one in exact]
    whole = [one // math.gcd(*scaled) for one in scaled]
    total = sum(whole)
    if total <= WEIGHTS_TOTAL:
        return whole
    most = WEIGHTS_TOTAL - len(whole)
    return [max(1, round(Fraction(one * most, total))) for one in whole]


def _check_alike(datasets: Sequence[TokenShards], num_samples: Tokens) -> None:
    for dataset, samples in zip(datasets, num_samples.tolist(), strict=True):
        if not samples:
            raise DataError(f"{dataset.folder} has no whole sample in {dataset.split}", subject=str(dataset.folder))
        if (dataset.vocab_size, dataset.eos_id) != (datasets[0].vocab_size, datasets[0].eos_id):
            raise DataError(
                f"{dataset.folder} has another vocabulary than {datasets[0].folder}",
                subject=str(dataset.folder),
                next_step="make the shards of all datasets with one tokenizer",
            )


def tree_of(weights: Sequence[int]) -> Node:
    """The two lightest groups are joined until one is left (Huffman, 1952), so a group weighs much more than those a
    few joins below it, and their roundings hardly add up.
    """
    order = count()
    heap = [(weight, next(order), Node(weight, dataset)) for dataset, weight in enumerate(weights)]
    heapq.heapify(heap)
    while len(heap) > 1:
        (light, _, left), (heavy, _, right) = heapq.heappop(heap), heapq.heappop(heap)
        heapq.heappush(heap, (light + heavy, next(order), Node(light + heavy, left=left, right=right)))
    return heap[0][2]


def deviations(node: Node, above: float = 0.0) -> list[float]:
    """By how many samples each dataset's number can differ from its share.

    A join rounds by half a sample at most, and hands on of the group's own deviation what falls to the part:
    ``e(part) <= 1/2 + e(group) * weight(part) / weight(group)``.
    """
    if node.left is None or node.right is None:
        return [above]
    parts = [(part, 0.5 + above * part.weight / node.weight) for part in (node.left, node.right)]
    return [one for part, deviation in parts for one in deviations(part, deviation)]


def _to_left(node: Node, position: Tokens) -> Tokens:
    """How many of a group's first ``position`` samples its left part gets: its share, rounded half up, exactly."""
    assert node.left is not None
    weight, total = node.left.weight, node.weight
    whole, rest = np.divmod(position, total)
    left: Tokens = whole * weight + (2 * rest * weight + total) // (2 * total)
    return left


def _descend(node: Node, rows: Tokens, position: Tokens, dataset: Tokens, turn: Tokens) -> None:
    """Fill in, for samples at ``position`` of a group, whose they are and the how manieth of that dataset."""
    if node.left is None or node.right is None:
        dataset[rows], turn[rows] = node.dataset, position
        return
    before = _to_left(node, position)
    left = _to_left(node, position + 1) > before
    _descend(node.left, rows[left], before[left], dataset, turn)
    _descend(node.right, rows[~left], (position - before)[~left], dataset, turn)


def _counts(node: Node, num_samples: int) -> Iterator[tuple[int, int]]:
    if node.left is None or node.right is None:
        yield node.dataset, num_samples
        return
    left = int(_to_left(node, np.array([num_samples], np.int64))[0])
    yield from _counts(node.left, left)
    yield from _counts(node.right, num_samples - left)


NUM_ROUNDS = 8


def shuffled(positions: Tokens, size: int, keys: Words) -> Tokens:
    """A permutation of ``range(size)`` for each key, asked for at some positions; no list of it is made.

    A Feistel network (Luby and Rackoff, "How to construct pseudorandom permutations", 1988) permutes the numbers below
    a power of four; one that lands at ``size`` or above is sent through again until it does not (cycle walking: Black
    and Rogaway, "Ciphers with arbitrary finite domains", 2002), fewer than four times on average.
    """
    half = max(1, -(-max(1, size - 1).bit_length() // 2))
    found = _network(positions.astype(np.uint64), half, keys)
    outside = np.flatnonzero(found >= size)
    while len(outside):
        found[outside] = _network(found[outside], half, keys[outside])
        outside = outside[found[outside] >= size]
    return found.astype(np.int64)


def _network(numbers: Words, half: int, keys: Words) -> Words:
    width, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = numbers >> width, numbers & mask
    for number in range(NUM_ROUNDS):
        left, right = right, left ^ (_mixed(right + keys + np.uint64(number << 32)) & mask)
    return (left << width) | right


def _mixed(words: Words) -> Words:
    """Every bit of a word depends on all of them: the last steps of SplitMix64 (Steele et al., 2014)."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _keys(seed: int, dataset: int, epochs: Tokens) -> Words:
    """A key for each epoch of a dataset."""
    start = _mixed(_mixed(np.array([seed], np.uint64)) + np.uint64(dataset))
    return _mixed(start + epochs.astype(np.uint64))
