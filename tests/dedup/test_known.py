"""What came in since is de-duplicated against what was known before."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from upath import UPath

from tasks.core import documents as docs
from tasks.core.errors import DataError
from tasks.dedup.config import DedupConfig
from tasks.dedup.stage import run
from tasks.text.split import Split, split_of
from tests.dedup.corpora import ids_of, numbered_words, planted
from tests.dedup.witness import all_pairs, jaccard, shingles

SECOND = 1000
"""Position of the first document of the second night."""
FILLER = [numbered_words(1000, 1060)]


@pytest.fixture
def nights(corpus, tmp_path):
    """Runs the stage on the texts of each night, each time with what the night before left; gives the last two
    artifacts and the last result."""

    def made(*texts, metas=(None, None, None)):
        known, out, result = None, None, None
        for night, one in enumerate(texts):
            documents = corpus(one, metas[night], name=f"in-{night}", first=night * SECOND)
            known, out = out, UPath(tmp_path) / f"night-{night}"
            result = run(DedupConfig(), documents, known, out=out)
        return known, out, result

    return made


def rows_of(artifact):
    return {row["id"]: row for row in docs.read_table(artifact).to_pylist()}


def dropped_rows(artifact):
    paths = sorted((artifact / "report").glob("dropped-*.parquet"))
    return {row["id"]: row for path in paths for row in pq.read_table(str(path)).to_pylist()}


def texts_of(artifact):
    return docs.read_table(artifact, ["text"])["text"].to_pylist()


def kept_by_brute_force(known, new):
    """Of each group that is linked by exact similarity all known texts, and one new one where none is known."""
    texts = [*known, *new]
    similar = np.array([pair for pair, value in all_pairs(texts).items() if value >= 0.8]).reshape(-1, 2)
    graph = coo_array((np.ones(len(similar)), (similar[:, 0], similar[:, 1])), shape=(len(texts), len(texts)))
    _, groups = connected_components(graph, directed=False)
    ids, kept = ids_of(texts, SECOND - len(known)), list(known)
    for group in set(groups) - set(groups[: len(known)]):
        members = np.flatnonzero(groups == group)
        kept.append(texts[min((-len(texts[one]), ids[one], one) for one in members)[2]])
    return kept


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_two_nights_keep_what_brute_force_keeps_when_the_old_always_wins(nights, seed):
    texts = planted(300, seed)
    known, out, result = nights(texts[:150], texts[150:])
    expected = kept_by_brute_force(texts_of(known), texts[150:])
    assert len(expected) < len(texts_of(known)) + 130, "the second night must have something to find"
    assert sorted(texts_of(out)) == sorted(expected)
    assert (result.num_known, result.num_in) == (len(texts_of(known)), 150)
    assert result.num_out == result.num_known + result.num_in - result.num_exact - result.num_near == len(expected)


def test_no_new_document_is_kept_that_is_a_copy_of_another_kept_one(nights):
    texts = planted(300, seed=7)
    known, out, _ = nights(texts[:150], texts[150:])
    kept, old = texts_of(out), set(texts_of(known))
    alike = [pair for pair, value in all_pairs(kept).items() if value >= 0.8]
    assert [pair for pair in alike if not {kept[one] for one in pair} <= old] == []


def test_known_documents_stay_row_for_row(nights):
    texts = planted(200, seed=5)
    known, out, _ = nights(texts[:100], texts[100:])
    for before, after in zip(docs.shards_of(known), docs.shards_of(out), strict=True):
        old, now = docs.read_shard(before), docs.read_shard(after)
        assert now.num_rows > old.num_rows
        assert now.filter(pc.is_in(now["id"], value_set=old["id"])).equals(old)


def test_no_known_document_moves_between_the_splits(nights):
    texts, split = planted(300, seed=3), Split(0.3, 0.3)
    known, out, _ = nights(texts[:150], texts[150:])
    side = {one: split_of(row["cluster"], split) for one, row in rows_of(out).items()}
    before = {one: split_of(row["cluster"], split) for one, row in rows_of(known).items()}
    assert len(set(before.values())) == 3
    assert {one: side[one] for one in before} == before


def test_the_very_documents_delivered_again_add_nothing(nights, corpus, tmp_path):
    texts = [*planted(80, seed=2), "", "…"]
    _, known, first = nights(texts)
    result = run(DedupConfig(), corpus(texts), known, out=UPath(tmp_path) / "again")
    assert docs.rows_digest(UPath(tmp_path) / "again") == docs.rows_digest(known)
    assert (result.num_known, result.num_in, result.num_out) == (first.num_out, 82, first.num_out)
    again = dropped_rows(UPath(tmp_path) / "again")
    assert all(again[one]["kept_id"] == one and again[one]["drop_reason"] == "exact_copy" for one in rows_of(known))
    assert len(again) == 82


def test_a_known_document_delivered_with_another_text_is_still_that_document(nights, tmp_path):
    _, known, _ = nights([numbered_words(0, 60)])
    (row,) = docs.read_table(known).drop_columns(["cluster"]).to_pylist()
    texts = [numbered_words(100, 160), numbered_words(100, 161)]
    changed = row | {"text": texts[0], "text_digest": docs.text_digest(texts[0])}
    other = row | {"id": "f" * 32, "text": texts[1], "text_digest": docs.text_digest(texts[1])}
    docs.write_documents(UPath(tmp_path) / "changed", docs.table_of([changed, other]), 3)
    out = UPath(tmp_path) / "out"
    result = run(DedupConfig(), UPath(tmp_path) / "changed", known, out=out)
    assert sorted(texts_of(out)) == sorted([row["text"], texts[1]])
    assert (result.num_exact, result.num_near) == (1, 0)


def test_a_shorter_known_document_wins_over_a_longer_new_one(nights):
    known, out, _ = nights([numbered_words(0, 60)], [numbered_words(0, 64), *FILLER])
    assert texts_of(known)[0] in texts_of(out)
    (row,) = dropped_rows(out).values()
    assert row["kept_id"] == next(iter(rows_of(known)))
    assert row["similarity"] == jaccard(shingles(numbered_words(0, 60)), shingles(numbered_words(0, 64)))
    assert row["drop_reason"] == "near_copy"


def test_a_new_document_that_links_two_known_ones_takes_neither_away_and_is_dropped(nights):
    old = [numbered_words(0, 100), numbered_words(20, 120)]
    link = numbered_words(10, 110)
    known, out, result = nights(old, [link, *FILLER])
    assert all(jaccard(shingles(link), shingles(one)) >= 0.8 > jaccard(*map(shingles, old)) for one in old)
    assert rows_of(known).items() <= rows_of(out).items()
    assert sorted(texts_of(out)) == sorted([*old, *FILLER])
    assert result.num_near == 1


def test_a_new_document_in_a_chain_that_ends_at_a_known_one_is_dropped_for_it(nights):
    chain = [numbered_words(start, start + 100) for start in (10, 20, 30)]
    known, out, _ = nights([numbered_words(0, 100)], [*chain, *FILLER])
    assert {row["kept_id"] for row in dropped_rows(out).values()} == set(rows_of(known))
    assert len(dropped_rows(out)) == 3


def test_the_exact_copy_of_a_known_document_is_dropped_for_that_one_even_if_a_longer_one_is_linked(nights):
    old = [numbered_words(0, 100), numbered_words(15, 130)]
    known, out, _ = nights(old, [old[0], numbered_words(8, 112), *FILLER])
    of_text = {row["text"]: one for one, row in rows_of(known).items()}
    copy = dropped_rows(out)[ids_of([old[0]], SECOND)[0]]
    assert (copy["kept_id"], copy["drop_reason"], copy["similarity"]) == (of_text[old[0]], "exact_copy", 1.0)


def test_a_new_document_like_a_known_one_takes_its_cluster(nights):
    _, out, result = nights([numbered_words(0, 100)], [numbered_words(15, 115), *FILLER])
    cluster = {row["text"]: row["cluster"] for row in rows_of(out).values()}
    assert cluster[numbered_words(0, 100)] == cluster[numbered_words(15, 115)] != cluster[FILLER[0]]
    assert (result.num_clusters, result.largest_cluster) == (2, 2)


def test_of_several_known_clusters_a_new_document_takes_the_smallest_name(nights):
    old = [numbered_words(0, 100), numbered_words(40, 140)]
    known, out, _ = nights(old, [numbered_words(20, 120)])
    names = [row["cluster"] for row in rows_of(known).values()]
    assert len(set(names)) == 2
    assert rows_of(out)[ids_of([numbered_words(20, 120)], SECOND)[0]]["cluster"] == min(names)


def test_a_pair_with_a_side_of_a_known_one_takes_its_cluster(nights):
    metas = [[{"en": "Save the file", "zh": "保存文件"}], [{"en": "Store it", "zh": "保存文件"}]]
    _, out, _ = nights(["Save the file 保存文件"], ["Store it 保存文件"], metas=metas)
    assert len({row["cluster"] for row in rows_of(out).values()}) == 1


def test_known_pairs_that_share_a_side_do_not_join_what_is_like_only_one_of_them(nights, tmp_path):
    metas = [[{"en": "a b", "zh": "甲乙"}, {"en": "c d", "zh": "甲乙"}], [{"en": "c d", "zh": "丙丁"}]]
    _, first, _ = nights(["a b 甲乙", "c d 甲乙"], metas=metas)
    table = docs.read_table(first)
    apart = table.set_column(table.column_names.index("cluster"), "cluster", table["id"])
    docs.write_documents(UPath(tmp_path) / "known", apart, 3)
    docs.write_documents(UPath(tmp_path) / "new", _pair("e" * 32, "c d 丙丁", metas[1][0]), 3)
    out = UPath(tmp_path) / "out"
    run(DedupConfig(), UPath(tmp_path) / "new", UPath(tmp_path) / "known", out=out)
    assert rows_of(out)["e" * 32]["cluster"] == next(
        one for one, row in rows_of(out).items() if "c d 甲" in row["text"]
    )


def _pair(one, text, meta):
    row = {"id": one, "text": text, "text_digest": docs.text_digest(text), "source": "test"}
    return docs.table_of([row | {"meta": str(meta).replace("'", '"')}])


def test_the_name_of_a_new_cluster_is_no_known_one(nights, corpus, tmp_path):
    _, first, _ = nights([numbered_words(0, 100)])
    new = ids_of(FILLER, SECOND)[0]
    table = docs.read_table(first)
    named = table.set_column(table.column_names.index("cluster"), "cluster", pa.array([new]))
    docs.write_documents(UPath(tmp_path) / "known", named, 3)
    out = UPath(tmp_path) / "out"
    run(DedupConfig(), corpus(FILLER, first=SECOND), UPath(tmp_path) / "known", out=out)
    assert len({row["cluster"] for row in rows_of(out).values()}) == 2
    assert sorted(row["cluster"] == new for row in rows_of(out).values()) == [False, True]


def test_a_third_night_stands_on_the_second(nights):
    texts = planted(240, seed=6)
    known, out, result = nights(texts[:80], texts[80:160], texts[160:])
    assert rows_of(known).items() <= rows_of(out).items()
    assert result.num_known == len(rows_of(known))


def test_a_night_on_which_nothing_came_leaves_what_was_known(nights, corpus, tmp_path):
    _, known, _ = nights(planted(20, seed=1))
    out = UPath(tmp_path) / "out"
    assert run(DedupConfig(), corpus([]), known, out=out).num_in == 0
    assert docs.rows_digest(out) == docs.rows_digest(known)


def test_another_number_of_shards_is_refused(nights, corpus, tmp_path):
    _, known, _ = nights(FILLER)
    with pytest.raises(DataError, match="the documents are in 5 shards and the known ones in 3") as caught:
        run(DedupConfig(), corpus(FILLER, num_shards=5, name="five"), known, out=UPath(tmp_path) / "out")
    assert caught.value.next_step == "set ingest.num_shards to 3"


def test_other_columns_are_refused_by_name(nights, corpus, tmp_path):
    _, known, _ = nights(FILLER)
    table = docs.read_table(corpus(FILLER))
    docs.write_documents(UPath(tmp_path) / "other", table.append_column("quality", pa.array([0.5])), 3)
    with pytest.raises(DataError, match=r"differ in the columns quality \(double\)$"):
        run(DedupConfig(), UPath(tmp_path) / "other", known, out=UPath(tmp_path) / "out")
    with pytest.raises(DataError, match=r"differ in the columns cluster \(string\)$"):
        run(DedupConfig(), corpus(FILLER), corpus(FILLER, name="no dedup"), out=UPath(tmp_path) / "out")
