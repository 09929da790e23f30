import json
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.core.errors import ConfigError, DataError

BAD_LINES = {
    "bad_json": b'{"text": "cut\n',
    "not_an_object": b'["text"]\n',
    "missing_text": b'{"title": "t"}\n',
    "text_not_a_string": b'{"text": 7}\n',
    "undecodable": b'{"text": "\xff\xfe broken"}\n',
    "lone_surrogate": b'{"text": "half of a pair \\ud800"}\n',
}


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


@pytest.mark.parametrize("reason", BAD_LINES)
def test_a_malformed_row_is_counted_by_its_reason_and_shown(tmp_path, ingest, reason):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "good"}\n' + BAD_LINES[reason])
    done = ingest(tmp_path, max_malformed_share=0.5)
    assert (done.texts, done.result.malformed) == (["good"], {reason: 1})
    [shown] = done.report["s0"]["malformed_shown"]
    assert (shown["file"], shown["row"], shown["reason"]) == ("a.jsonl", 2, reason)


def test_only_the_first_three_of_a_reason_are_shown(tmp_path, ingest):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "good"}\n' * 10 + BAD_LINES["bad_json"] * 7)
    done = ingest(tmp_path, max_malformed_share=0.9)
    assert [one["row"] for one in done.report["s0"]["malformed_shown"]] == [11, 12, 13]
    assert done.result.malformed == {"bad_json": 7}


@pytest.mark.parametrize(("share", "is_fatal"), [(0.1, False), (0.09, True)])
def test_malformed_rows_are_fatal_only_above_the_configured_share(tmp_path, ingest, share, is_fatal):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "good"}\n' * 9 + BAD_LINES["bad_json"])
    if not is_fatal:
        assert ingest(tmp_path, max_malformed_share=share).result.num_documents == 9
        return
    with pytest.raises(DataError, match=r'(?s)s0: 1 of 10 rows.*a\.jsonl:10 bad_json: \{"text": "cut') as caught:
        ingest(tmp_path, max_malformed_share=share)
    assert "max_malformed_share" in caught.value.next_step


def test_a_broken_source_is_not_hidden_by_a_large_good_one(tmp_path, ingest):
    write_jsonl(tmp_path / "good.jsonl", [{"text": f"good {number}"} for number in range(500)])
    (tmp_path / "bad.jsonl").write_bytes(b'{"text": "good"}\n' + BAD_LINES["bad_json"])
    with pytest.raises(DataError, match="s1: 1 of 2 rows"):
        ingest(tmp_path / "good.jsonl", tmp_path / "bad.jsonl")


def test_an_escaped_surrogate_pair_is_the_character_it_stands_for(tmp_path, ingest):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "\\ud83d\\ude00"}\n')
    assert ingest(tmp_path).texts == ["\N{GRINNING FACE}"]


def test_a_lone_surrogate_in_meta_does_not_crash(tmp_path, ingest):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "good", "k": "\\udfff"}\n{"text": "good", "k": "v"}\n')
    done = ingest({"path": tmp_path, "meta_columns": ["k"]}, max_malformed_share=0.5)
    assert done.result.malformed == {"lone_surrogate": 1}


def test_json_nested_deeper_than_the_interpreter_recurses_is_malformed(tmp_path, ingest):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "good"}\n' + b"[" * 200_000 + b"\n")
    assert ingest(tmp_path, max_malformed_share=0.5).result.malformed == {"bad_json": 1}


def test_parquet_bytes_that_are_no_utf8_cost_only_their_row(tmp_path, ingest):
    broken = pa.StringArray.from_buffers(2, pa.array([0, 4, 6], pa.int32()).buffers()[1], pa.py_buffer(b"good\xff\xfe"))
    pq.write_table(pa.table({"text": broken}), tmp_path / "a.parquet")
    done = ingest(tmp_path, max_malformed_share=0.5)
    assert (done.texts, done.result.malformed) == (["good"], {"undecodable": 1})


def test_a_utf16_file_that_was_cut_in_a_character_loses_only_its_end(tmp_path, ingest):
    (tmp_path / "a.jsonl").write_bytes('{"text": "good"}\n{"text": "cut"}\n'.encode("utf-16")[:-1])
    done = ingest(tmp_path, max_malformed_share=0.9)
    assert (done.texts, done.result.malformed) == (["good"], {"undecodable": 1})


def test_an_empty_file_gives_no_rows_and_an_empty_document_is_counted(tmp_path, ingest):
    for name in ("a.jsonl", "b.parquet", "c.jsonl.gz"):
        (tmp_path / name).touch()
    (tmp_path / "d.txt").touch()
    write_jsonl(tmp_path / "e.jsonl", [{"text": ""}, {"text": " \n\u3000"}, {"text": "good"}])
    done = ingest(tmp_path)
    assert (done.texts, done.result.num_rows, done.result.num_empty) == (["good"], 4, 3)


def test_no_document_at_all_is_refused_with_what_was_there(tmp_path, ingest):
    write_jsonl(tmp_path / "a.jsonl", [{"text": ""}] * 2)
    with pytest.raises(DataError, match=r"hold no document .*s0: 1 files, 2 rows, 2 empty"):
        ingest(tmp_path)


def test_an_unknown_text_column_lists_the_columns_and_the_knob(tmp_path, ingest):
    write_jsonl(tmp_path / "a.jsonl", [{"content": "x", "url": "u"}])
    pq.write_table(pa.table({"body": ["x"]}), tmp_path / "b.parquet")
    for name, found in (("a.jsonl", "content, url"), ("b.parquet", "body")):
        with pytest.raises(ConfigError, match=rf"ingest\.sources\[0\]\.text_column: .*'text'; found: {found}"):
            ingest(tmp_path / name)


def test_all_unknown_columns_of_a_source_are_told_at_once(tmp_path, ingest):
    write_jsonl(tmp_path / "a.jsonl", [{"text": "x"}])
    knobs = {"template": "{en}{zh}", "meta_columns": ["url"], "id_column": "key"}
    with pytest.raises(ConfigError) as caught:
        ingest({"path": tmp_path} | knobs)
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "ingest.sources[0].template",
        "ingest.sources[0].template",
        "ingest.sources[0].meta_columns",
        "ingest.sources[0].id_column",
    ]


def test_a_wrong_column_is_told_before_a_long_file_is_read(tmp_path, ingest):
    with (tmp_path / "a.jsonl").open("w") as file:
        file.writelines('{"content": "x"}\n' for _ in range(1000))
        file.write("this line is never reached\n" * 10)
    with pytest.raises(ConfigError, match="found: content"):
        ingest(tmp_path)


def test_a_single_line_of_50_mb_becomes_a_document(tmp_path, ingest):
    text = "中文 and English. " * 2_550_000
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "' + text.encode() + b'"}\n{"text": "short"}\n')
    assert (tmp_path / "a.jsonl").stat().st_size > 50_000_000
    done = ingest(tmp_path)
    assert [len(text) for text in done.texts] == [len("short"), len(text)]


def test_a_line_over_the_limit_is_skipped_without_being_held_in_memory(tmp_path, ingest):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "' + b"x" * 50_000_000 + b'"}\n{"text": "short"}\n')
    tracemalloc.start()
    done = ingest(tmp_path, max_document_bytes=1_000_000, max_malformed_share=0.5)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (done.texts, done.result.malformed) == (["short"], {"too_large": 1})
    assert peak_bytes < 10_000_000
