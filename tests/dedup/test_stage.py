from collections import defaultdict

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tasks.core import documents as docs
from tasks.core.config import validated
from tasks.core.errors import ConfigError, DataError
from tasks.dedup.config import DedupConfig
from tasks.dedup.stage import VERSION, run
from tests.dedup.corpora import ids_of, numbered_words, planted
from tests.dedup.witness import all_pairs, jaccard, shingles


def kept_rows(out):
    return {row["id"]: row for row in docs.read_table(out).to_pylist()}


def dropped_rows(out):
    paths = sorted((out / "report").glob("dropped-*.parquet"))
    return {row["id"]: row for path in paths for row in pq.read_table(str(path)).to_pylist()}


def test_of_five_documents_two_identical_and_three_single_words_four_remain(corpus, out):
    result = run(DedupConfig(), corpus(["the same text", "the same text", "one", "two", "three"]), out=out)
    assert (result.num_in, result.num_out, result.num_exact, result.num_near) == (5, 4, 1, 0)


@pytest.mark.parametrize(("threshold", "num_out"), [(0.3, 1), (0.9, 2)])
def test_the_threshold_decides_what_is_a_copy(corpus, out, threshold, num_out):
    texts = [numbered_words(0, 50), numbered_words(5, 55)]
    assert jaccard(*map(shingles, texts)) == pytest.approx(41 / 51)
    result = run(DedupConfig(threshold=threshold, cluster_threshold=0.3), corpus(texts), out=out)
    assert result.num_out == num_out


def test_what_is_dropped_is_what_brute_force_drops(corpus, out):
    texts = planted(400, seed=11)
    run(DedupConfig(), corpus(texts), out=out)
    similar = np.array([pair for pair, value in all_pairs(texts).items() if value >= 0.8])
    graph = coo_array((np.ones(len(similar)), (similar[:, 0], similar[:, 1])), shape=(400, 400))
    _, groups = connected_components(graph, directed=False)
    ids, expected = ids_of(texts), set()
    for group in range(groups.max() + 1):
        members = np.flatnonzero(groups == group)
        expected.add(min((-len(texts[one]), ids[one]) for one in members)[1])
    kept = set(kept_rows(out))
    assert len(expected) < 350, "the corpus must have something to find"
    assert kept >= expected, "precision is 1: nothing is dropped that is no copy"
    assert len(kept - expected) <= 0.01 * (400 - len(expected)), "recall is high"


def test_every_dropped_document_names_the_one_kept_and_their_exact_similarity(corpus, out):
    texts = planted(200, seed=2)
    texts += texts[:20]
    run(DedupConfig(), corpus(texts), out=out)
    text_of, kept, dropped = dict(zip(ids_of(texts), texts, strict=True)), kept_rows(out), dropped_rows(out)
    assert kept.keys() | dropped.keys() == text_of.keys()
    assert not kept.keys() & dropped.keys()
    for one, row in dropped.items():
        assert row["kept_id"] in kept
        copy, original = text_of[one], text_of[row["kept_id"]]
        assert row["similarity"] == jaccard(shingles(copy), shingles(original))
        assert row["drop_reason"] == ("exact_copy" if copy == original else "near_copy")
        assert row["excerpt"] == copy[:300]
    assert {row["drop_reason"] for row in dropped.values()} == {"exact_copy", "near_copy"}


def test_the_longest_text_is_kept(corpus, out):
    texts = [numbered_words(0, 60), numbered_words(0, 64), numbered_words(0, 62)]
    run(DedupConfig(), corpus(texts), out=out)
    assert set(kept_rows(out)) == {ids_of(texts)[1]}


def test_of_equally_long_texts_the_smallest_id_is_kept(corpus, out):
    texts = [f"{numbered_words(100, 160)} {letter}" for letter in "abc"]
    run(DedupConfig(), corpus(texts), out=out)
    assert set(kept_rows(out)) == {min(ids_of(texts))}


def test_a_chain_of_copies_is_one_group_and_reports_its_size_and_low_similarity(corpus, out):
    texts = [numbered_words(start, start + 100) for start in range(0, 60, 6)]
    result = run(DedupConfig(), corpus(texts), out=out)
    assert (result.num_out, result.largest_group) == (1, 10)
    assert min(row["similarity"] for row in dropped_rows(out).values()) < 0.8


def test_copies_are_found_in_chinese(corpus, out):
    poem = "床前明月光,疑是地上霜。举头望明月,低头思故乡。"
    texts = [poem + "静夜思,李白作。", poem + "静夜思,李白作!", "白日依山尽,黄河入海流。欲穷千里目,更上一层楼。"]
    assert run(DedupConfig(), corpus(texts), out=out).num_out == 2


def test_empty_documents_match_nothing(corpus, out):
    result = run(DedupConfig(), corpus(["", "", "…", "!?", "a text"]), out=out)
    assert (result.num_out, result.num_clusters) == (5, 5)


def test_a_document_shorter_than_the_shingle_has_only_copies_of_the_very_same_words(corpus, out):
    result = run(DedupConfig(), corpus(["Save as", "save as!", "save", "save as file"]), out=out)
    assert (result.num_out, result.num_near) == (3, 1)


def test_no_documents_is_an_error(corpus, out):
    with pytest.raises(DataError, match="no documents to de-duplicate"):
        run(DedupConfig(), corpus([]), out=out)


def test_similar_documents_that_are_both_kept_share_a_cluster(corpus, out):
    texts = [numbered_words(0, 100), numbered_words(15, 115), numbered_words(500, 600)]
    assert 0.6 < jaccard(*map(shingles, texts[:2])) < 0.8
    result = run(DedupConfig(), corpus(texts), out=out)
    cluster = [kept_rows(out)[one]["cluster"] for one in ids_of(texts)]
    assert cluster[0] == cluster[1] != cluster[2]
    assert (result.num_clusters, result.largest_cluster) == (2, 2)


def test_no_pair_of_kept_documents_above_the_cluster_threshold_is_in_two_clusters(corpus, out):
    texts = planted(400, seed=21)
    run(DedupConfig(), corpus(texts), out=out)
    ids, kept = ids_of(texts), kept_rows(out)
    alike = [
        pair for pair, value in all_pairs(texts).items() if value >= 0.65 and {ids[at] for at in pair} <= set(kept)
    ]
    assert len(alike) > 10
    apart = [pair for pair in alike if len({kept[ids[at]]["cluster"] for at in pair}) == 2]
    assert len(apart) <= 0.02 * len(alike)


def test_a_cluster_is_named_by_a_document_that_is_kept(corpus, out):
    run(DedupConfig(), corpus(planted(200, seed=4)), out=out)
    kept = kept_rows(out)
    members = defaultdict(list)
    for one, row in kept.items():
        members[row["cluster"]].append(one)
    assert all(name == min(ids) for name, ids in members.items())


def test_pair_documents_with_an_equal_side_share_a_cluster(corpus, out):
    pairs = [("Save the file", "保存文件"), ("Store the document", "保存文件"), ("Print it now", "立即打印")]
    texts = [f"English: {en}\nChinese: {zh}" for en, zh in pairs]
    run(DedupConfig(), corpus(texts, [{"en": en, "zh": zh} for en, zh in pairs]), out=out)
    cluster = [kept_rows(out)[one]["cluster"] for one in ids_of(texts)]
    assert cluster[0] == cluster[1] != cluster[2]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_result_depends_on_neither_workers_nor_shards(corpus, out, workers):
    texts = planted(120, seed=9)
    run(DedupConfig(workers=workers), corpus(texts, num_shards=2), out=out)
    once = kept_rows(out)
    run(DedupConfig(), corpus(texts, name="again", num_shards=5), out=out.parent / "other")
    assert kept_rows(out.parent / "other") == once


def test_a_kept_document_gains_the_cluster_column_and_changes_in_nothing_else(corpus, out):
    texts = planted(30, seed=1)
    source = corpus(texts)
    run(DedupConfig(), source, out=out)
    before = {row["id"]: row for row in docs.read_table(source).to_pylist()}
    for one, row in kept_rows(out).items():
        assert row.pop("cluster") is not None
        assert row == before[one]


def test_bands_that_need_more_permutations_than_there_are_and_a_high_cluster_threshold_are_refused():
    with pytest.raises(ConfigError, match=r"num_bands \* rows_per_band must be at most num_permutations"):
        validated(DedupConfig, {"num_bands": 64}, stage="dedup")
    with pytest.raises(ConfigError, match="cluster_threshold must be at most threshold"):
        validated(DedupConfig, {"threshold": 0.5}, stage="dedup")


def test_what_the_stage_makes_changes_only_with_its_version(corpus, out):
    run(DedupConfig(), corpus(planted(60, seed=8)), out=out)
    assert (VERSION, docs.rows_digest(out)[:16]) == (1, "458a54befd587523")
