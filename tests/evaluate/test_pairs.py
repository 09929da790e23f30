"""Which pairs are fair to ask, against Jaccard similarities computed one by one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from upath import UPath

from tasks.core.documents import table_of, write_documents
from tasks.evaluate.pairs import Pair, nearest_jaccard, read_pairs, select_pairs
from tasks.text.words import words


def jaccard(one, other):
    return len(one & other) / len(one | other) if one | other else 0.0


def random_sets(seed, count, words=30):
    rng = np.random.default_rng(seed)
    return [frozenset(f"w{one}" for one in rng.integers(0, words, size=rng.integers(0, 12))) for _ in range(count)]


@pytest.mark.parametrize("cells", [1, 100, 10_000])
def test_the_nearest_set_is_the_one_exact_jaccard_finds(cells, monkeypatch):
    monkeypatch.setattr("tasks.evaluate.pairs.BLOCK_CELLS", cells)
    queries, corpus = random_sets(1, 40, words=35), random_sets(2, 60)
    similarity, position = nearest_jaccard(queries, corpus)
    for one, query in enumerate(queries):
        exact = [jaccard(query, other) for other in corpus]
        assert similarity[one] == max(exact)
        assert position[one] == exact.index(max(exact))


def test_nothing_is_near_without_a_corpus():
    assert nearest_jaccard([frozenset("ab")], [])[0].tolist() == [0.0]
    assert nearest_jaccard([], [frozenset("ab")])[0].tolist() == []


TRAIN = [Pair("t1", "one two three four five", "一二三四五"), Pair("t2", "red green blue pink grey", "红绿蓝粉灰")]


def select(held_out, train=TRAIN, **changes):
    knobs = {"num_pairs": 9, "min_words": 4, "near_copy": 0.6, "fits": lambda pair: "long" not in pair.en} | changes
    return select_pairs(held_out, train, **knobs)


@pytest.mark.parametrize(
    ("en", "zh", "chosen", "counted"),
    [
        ("one two six seven", "甲乙丙", True, None),
        ("one two six", "甲乙丙", False, "num_short"),
        ("one two three four", "甲乙丙", False, "num_near_copies"),
        ("one two three eight", "甲乙丙", True, None),  # 3 of 6 words
        ("six seven eight nine", "一二三四甲", False, "num_near_copies"),  # 4 of 6 characters
        ("six seven eight nine", "一二三甲乙", True, None),  # 3 of 7
        ("a very long thing", "甲乙丙", False, "num_too_long"),
    ],
)
def test_a_pair_is_asked_only_when_it_is_fair(en, zh, chosen, counted):
    selection = select([Pair("h", en, zh)])
    assert [pair.id for pair in selection.chosen] == (["h"] if chosen else [])
    counts = {name: getattr(selection, name) for name in ("num_short", "num_near_copies", "num_too_long")}
    assert counts == {name: int(name == counted) for name in counts}


def test_similarity_of_exactly_the_threshold_is_a_copy():
    held_out = [Pair("h", "one two three six", "甲乙丙")]
    assert jaccard(set(words(held_out[0].en)), set(words("one two three six seven"))) == 0.8
    train = [Pair("t", "one two three six seven", "丁")]
    assert not select(held_out, train, near_copy=0.8).chosen
    assert select(held_out, train, near_copy=0.81).chosen


def test_the_nearest_training_pair_stands_beside_each_chosen_pair():
    held_out = [Pair("h1", "green pink six seven", "甲"), Pair("h2", "two six seven eight", "乙")]
    selection = select(held_out)
    assert [pair.id for pair in selection.nearest] == ["t2", "t1"]


def test_the_first_pairs_in_order_are_taken():
    held_out = [Pair(f"h{one}", f"six seven eight n{one}", "甲") for one in range(5)]
    assert [pair.id for pair in select(held_out, num_pairs=2).chosen] == ["h0", "h1"]


def test_without_training_pairs_there_is_no_nearest():
    selection = select([Pair("h", "six seven eight nine", "甲")], train=[])
    assert len(selection.chosen) == 1
    assert selection.nearest == []


def test_only_documents_of_the_split_with_both_sides_are_pairs(tmp_path):
    metas = {
        "c": {"en": " Open ", "zh": "打开"},
        "a": {"en": "Close", "zh": "关闭"},
        "b": {"en": "Alone", "zh": ""},
        "d": {"title": "no pair", "zh": 3},
        "e": {"en": "Elsewhere", "zh": "别处"},
    }
    rows = [
        {"id": one * 32, "text": "t", "text_digest": "d", "source": "s", "meta": json.dumps(meta, ensure_ascii=False)}
        for one, meta in metas.items()
    ]
    write_documents(tmp_path, table_of(rows), 2)
    found = read_pairs(UPath(tmp_path), {one * 32 for one in "abcd"})
    assert found == [Pair("a" * 32, "Close", "关闭"), Pair("c" * 32, "Open", "打开")]
