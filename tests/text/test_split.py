from collections import Counter

import pytest

from tasks.core.config import validated
from tasks.core.errors import ConfigError
from tasks.shards.config import ShardsConfig
from tasks.text.split import SPLITS, Split, split_of

CLUSTERS = [f"cluster-{number}" for number in range(20_000)]


def test_the_shares_are_those_asked_for():
    found = Counter(split_of(one, Split(validation=0.1, test=0.2)) for one in CLUSTERS)
    assert found["validation"] / len(CLUSTERS) == pytest.approx(0.1, abs=0.01)
    assert found["test"] / len(CLUSTERS) == pytest.approx(0.2, abs=0.01)


def test_a_share_of_zero_is_empty():
    assert {split_of(one, Split(validation=0, test=0)) for one in CLUSTERS} == {"train"}


def test_another_validation_share_moves_nothing_in_or_out_of_test():
    for one in CLUSTERS:
        assert (split_of(one, Split(0.05, 0.1)) == "test") == (split_of(one, Split(0.3, 0.1)) == "test")


def test_a_larger_share_only_takes_from_training():
    before = {one for one in CLUSTERS if split_of(one, Split(0.05, 0.0)) == "validation"}
    after = {one for one in CLUSTERS if split_of(one, Split(0.1, 0.0)) == "validation"}
    assert before < after


def test_the_split_of_a_cluster_never_changes():
    assert [split_of(one, Split(0.3, 0.3)) for one in CLUSTERS[:6]] == [
        "train",
        "validation",
        "train",
        "test",
        "validation",
        "test",
    ]


def test_another_seed_draws_another_test_split():
    first, second = ({one for one in CLUSTERS if split_of(one, Split(0, 0.1, seed)) == "test"} for seed in (0, 1))
    assert len(first & second) / len(first) == pytest.approx(0.1, abs=0.03)


def test_the_shares_sum_to_one():
    assert sum(Split(0.2, 0.3).share(split) for split in SPLITS) == pytest.approx(1)


@pytest.mark.parametrize("shares", [{"test": 0.5, "validation": 0.5}, {"test": 1}, {"validation": -0.1}, {"dev": 0.1}])
def test_shares_that_leave_nothing_to_train_on_are_refused(shares):
    with pytest.raises(ConfigError, match=r"shards\.split"):
        validated(ShardsConfig, {"split": shares}, stage="shards")
