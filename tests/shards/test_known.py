"""Training goes on with what is new and a share of what was known."""

import hashlib
from itertools import pairwise

import numpy as np
import pytest
from upath import UPath

from tasks.core.errors import DataError, NothingNew
from tasks.lm.token_shards import TokenShards
from tasks.shards.config import ShardsConfig
from tasks.shards.replay import num_enough
from tasks.shards.stage import run
from tasks.text.split import SPLITS, Split, split_of
from tests.shards.corpora import bytes_tokenizer, mixed_rows, row, write_rows

SPLIT = Split(0.15, 0.15)
ROWS = mixed_rows(400)
OLD, NEW = ROWS[:320], ROWS[320:]


@pytest.fixture
def tokenizer(tmp_path):
    return bytes_tokenizer(UPath(tmp_path) / "tokenizer")


@pytest.fixture
def made(tmp_path, tokenizer):
    """Runs the stage on known and new rows and gives the artifact and the result."""

    def make(old=OLD, new=NEW, name="out", **knobs):
        known = write_rows(UPath(tmp_path) / f"{name}-known", old)
        documents = write_rows(UPath(tmp_path) / f"{name}-in", [*old, *new])
        out = UPath(tmp_path) / name
        return out, run(ShardsConfig(**{"split": SPLIT} | knobs), documents, tokenizer, known, out=out)

    return make


def ids_of(rows, split):
    return {one["id"] for one in rows if split_of(one["cluster"], SPLIT) == split}


def stored(out, split="train"):
    return TokenShards(out, split).documents["id"].to_pylist()


def size_of(rows, ids):
    return sum(len(one["text"].encode()) for one in rows if one["id"] in ids)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.7])
def test_the_known_share_of_the_training_text_is_what_was_asked_within_one_document(made, share):
    out, result = made(replay_share=share)
    train, largest = set(stored(out)), max(len(one["text"].encode()) for one in ROWS)
    new, old = size_of(NEW, train), size_of(OLD, train)
    assert 0 <= old - share / (1 - share) * new < largest
    assert result.num_replayed == len(train & ids_of(OLD, "train")) > 0


def test_all_new_training_documents_are_stored(made):
    out, result = made()
    train = set(stored(out))
    assert ids_of(NEW, "train") <= train <= ids_of(ROWS, "train")
    assert result.num_documents["train"] == result.num_replayed + len(ids_of(NEW, "train"))


@pytest.mark.parametrize("side", SPLITS[1:])
def test_what_is_held_out_of_known_and_new_is_stored_whole(made, side):
    out, _ = made()
    assert set(stored(out, side)) == ids_of(ROWS, side)
    assert ids_of(OLD, side)
    assert ids_of(NEW, side)


def test_nothing_is_replayed_when_no_share_is_asked(made):
    out, result = made(replay_share=0)
    assert result.num_replayed == 0
    assert set(stored(out)) == ids_of(NEW, "train")


def test_when_the_known_text_does_not_suffice_all_of_it_is_taken(made):
    out, result = made(replay_share=0.99)
    assert set(stored(out)) == ids_of(ROWS, "train")
    assert result.num_replayed == len(ids_of(OLD, "train"))


def test_the_draw_is_the_same_each_time_and_another_with_another_seed(made):
    drawn = [
        set(stored(made(name=name, seed=seed)[0])) - ids_of(NEW, "train")
        for name, seed in [("a", 0), ("b", 0), ("c", 1)]
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_greater_share_adds_to_what_a_smaller_one_draws(made):
    few, many = (set(stored(made(name=f"{share}", replay_share=share)[0])) for share in (0.2, 0.5))
    assert few < many


def test_replayed_documents_are_mixed_with_the_new_ones(made):
    out, _ = made()
    is_new = [one in ids_of(NEW, "train") for one in stored(out)]
    assert sum(a != b for a, b in pairwise(is_new)) > len(is_new) / 3


def test_as_many_documents_are_drawn_as_it_takes():
    sizes = np.array([3, 0, 4])
    assert [num_enough(sizes, wanted) for wanted in (0, 0.5, 3, 3.1, 7, 8)] == [0, 1, 1, 3, 3, 3]
    assert num_enough(np.array([], np.int64), 5) == 0


def test_without_known_documents_the_share_changes_nothing(tmp_path, tokenizer):
    documents, digests = write_rows(UPath(tmp_path) / "in", ROWS), set()
    for share in (0.1, 0.5):
        out = UPath(tmp_path) / f"{share}"
        result = run(ShardsConfig(split=SPLIT, replay_share=share), documents, tokenizer, out=out)
        digests.add(hashlib.sha256(b"".join(one.read_bytes() for one in sorted(out.rglob("*.*")))).hexdigest())
        assert result.num_replayed == 0
    assert len(digests) == 1


def test_nothing_new_is_an_error(made):
    with pytest.raises(NothingNew, match=r"nothing new to train on: all that arrived was known already$") as caught:
        made(new=[])
    assert caught.value.subject
    assert caught.value.next_step


def test_documents_without_all_the_known_ones_are_refused(tmp_path, tokenizer):
    known, documents = (write_rows(UPath(tmp_path) / name, rows) for name, rows in [("a", OLD), ("b", ROWS[5:])])
    with pytest.raises(DataError, match="5 of 320 known documents are not among the documents"):
        run(ShardsConfig(split=SPLIT), documents, tokenizer, known, out=UPath(tmp_path) / "out")


def test_nothing_new_but_held_out_documents_is_an_error_that_counts_them(made):
    side = next(one for one in map(str, range(100)) if split_of(one, SPLIT) == "test")
    with pytest.raises(DataError, match=r"known already or is held out \(1 new\)"):
        made(new=[row(999, "a new text", cluster=side)])
