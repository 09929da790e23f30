import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.core.errors import DataError

TEXTS = ["The first text.\nIt has two lines.", "第二段文字，没有空格。"]


def as_jsonl(texts=TEXTS) -> bytes:
    return "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts).encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", as_jsonl()),
        ("a.jsonl.gz", gzip.compress(as_jsonl())),
        ("a.jsonl.zst", pa.Codec("zstd").compress(as_jsonl(), asbytes=True)),
        # Two frames behind each other are what `zstd -T` and `cat` make.
        ("b.jsonl.zst", b"".join(pa.Codec("zstd").compress(as_jsonl([text]), asbytes=True) for text in TEXTS)),
    ],
)
def test_jsonl_is_read_plain_and_compressed(tmp_path, ingest, name, content):
    (tmp_path / name).write_bytes(content)
    assert ingest(tmp_path / name).texts == sorted(TEXTS)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.binary()])
def test_parquet_text_is_read_whatever_its_arrow_type(tmp_path, ingest, kind):
    pq.write_table(pa.table({"text": pa.array(TEXTS).cast(kind), "other": [1, 2]}), tmp_path / "a.parquet")
    assert ingest(tmp_path).texts == sorted(TEXTS)


def test_a_text_file_is_one_document(tmp_path, ingest):
    for number, text in enumerate(TEXTS):
        (tmp_path / f"{number}.txt").write_text(text, "utf-8")
    assert ingest(tmp_path).texts == sorted(TEXTS)


def test_a_folder_gives_the_files_of_the_format_asked_for(tmp_path, ingest):
    (tmp_path / "a.jsonl").write_bytes(as_jsonl(["from a table"]))
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "b.txt").write_text("from a file")
    (tmp_path / "LICENSE").write_text("not asked for")
    assert ingest(tmp_path).texts == ["from a file", "from a table"]
    assert ingest({"path": tmp_path, "format": "text"}).texts == ["from a file"]


def test_a_glob_gives_what_it_matches(tmp_path, ingest):
    for name in ("a1", "a2", "b1"):
        (tmp_path / f"{name}.txt").write_text(name)
    assert ingest(tmp_path / "a*.txt").texts == ["a1", "a2"]


def test_hidden_files_and_marks_of_other_tools_are_left_out(tmp_path, ingest):
    (tmp_path / ".git").mkdir()
    for name in ("seen.txt", ".hidden.txt", "_SUCCESS.txt", ".git/config.txt"):
        (tmp_path / name).write_text(name)
    assert ingest(tmp_path).texts == ["seen.txt"]


@pytest.mark.parametrize(("name", "codec"), [("a.jsonl.gz", "gzip"), ("a.jsonl.zst", "zstd")])
def test_a_cut_file_is_refused_by_name(tmp_path, ingest, name, codec):
    whole = pa.Codec(codec).compress(as_jsonl([str(number) for number in range(5000)]), asbytes=True)
    (tmp_path / name).write_bytes(whole[:-20])
    with pytest.raises(DataError, match=name):
        ingest(tmp_path / name)


def test_a_file_that_is_no_parquet_is_refused_by_name(tmp_path, ingest):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 is only how it begins")
    with pytest.raises(DataError, match=r"a\.parquet as parquet"):
        ingest(tmp_path)


def test_a_parquet_file_with_a_damaged_page_is_refused_by_name(tmp_path, ingest):
    pq.write_table(pa.table({"text": [f"row {number}" for number in range(5000)]}), tmp_path / "a.parquet")
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    content[100:4000] = bytes(3900)
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.parquet as parquet"):
        ingest(tmp_path)
