import pyarrow as pa
import pytest
from upath import UPath

from tasks.core import documents, engine
from tasks.core.errors import DataError


def rows(*texts: str, source: str = "s") -> pa.Table:
    made = []
    for number, text in enumerate(texts):
        digest = documents.text_digest(text)
        name = documents.document_id(source, str(number), digest)
        made.append({"id": name, "text": text, "text_digest": digest, "source": source, "meta": "{}"})
    return documents.table_of(made)


def test_exact_copies_stay_two_documents_with_one_text_digest():
    table = rows("same", "same")
    assert len(set(table["id"].to_pylist())) == 2
    assert len(set(table["text_digest"].to_pylist())) == 1


def test_the_digest_of_rows_does_not_depend_on_arrival_or_compression(tmp_path):
    table = rows(*(f"text {number}" for number in range(50)))
    for name, one in (("a", table), ("b", table.take(list(reversed(range(50)))))):
        documents.write_documents(UPath(tmp_path / name), one, 3)
    assert documents.rows_digest(UPath(tmp_path / "a")) == documents.rows_digest(UPath(tmp_path / "b"))
    files = [path.read_bytes() for path in sorted((tmp_path / "a" / "documents").iterdir())]
    assert files == [path.read_bytes() for path in sorted((tmp_path / "b" / "documents").iterdir())]


def test_the_digest_of_rows_sees_one_changed_character(tmp_path):
    documents.write_documents(UPath(tmp_path / "a"), rows("one", "two"), 2)
    changed = rows("one", "two").set_column(4, "meta", pa.array(["{}", '{"a":1}']))
    documents.write_documents(UPath(tmp_path / "b"), changed, 2)
    assert documents.rows_digest(UPath(tmp_path / "a")) != documents.rows_digest(UPath(tmp_path / "b"))


def test_two_documents_with_one_id_are_refused(tmp_path):
    table = rows("one")
    with pytest.raises(DataError, match="same id"):
        documents.write_documents(UPath(tmp_path), pa.concat_tables([table, table]), 1)


def test_a_folder_without_documents_is_an_error(tmp_path):
    with pytest.raises(DataError, match="holds no documents"):
        documents.read_table(UPath(tmp_path))


def shout_and_drop(batch: pa.RecordBatch) -> pa.RecordBatch:
    texts = [text.upper() for text in batch["text"].to_pylist()]
    reasons = ["odd" if text[-1] in "13579" else "" for text in texts]
    batch = batch.set_column(1, "text", pa.array(texts, pa.string()))
    return batch.append_column(engine.REASON, pa.array(reasons, pa.string()))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_mapped_stage_gives_the_same_bytes_with_any_number_of_workers(tmp_path, workers):
    source, out = UPath(tmp_path / "in"), UPath(tmp_path / f"out{workers}")
    documents.write_documents(source, rows(*(f"text {number}" for number in range(20))), 3)
    totals = engine.map_batches(shout_and_drop, source, out, workers=workers)
    assert (totals.num_in, totals.num_out, totals.dropped) == (20, 10, {"odd": 10})
    kept = documents.read_table(out)["text"].to_pylist()
    assert sorted(kept) == sorted(f"TEXT {number}" for number in range(0, 20, 2))
    assert documents.rows_digest(out) == "".join(
        documents.rows_digest(other) for other in [single_worker(tmp_path, source)]
    )


def single_worker(tmp_path, source: UPath) -> UPath:
    out = UPath(tmp_path / "reference")
    engine.map_batches(shout_and_drop, source, out, workers=1)
    return out
