import json
import shutil

import pytest

from tasks.core.config import identity_of, validated
from tasks.core.documents import rows_digest
from tasks.core.errors import ConfigError, DataError
from tasks.ingest.config import IngestConfig
from tasks.ingest.fingerprint import fingerprint


def config_of(*paths, **knobs) -> IngestConfig:
    sources = [{"name": f"s{number}", "path": str(path)} for number, path in enumerate(paths)]
    return validated(IngestConfig, {"sources": sources} | knobs, stage="ingest")


def test_equal_files_of_two_sources_stay_two_documents_with_one_digest(tmp_path, ingest):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("the same")
    rows = ingest(tmp_path / "a.txt", tmp_path / "b.txt").rows
    assert len({row["id"] for row in rows}) == 2
    assert len({row["text_digest"] for row in rows}) == 1


def test_equal_lines_of_one_file_stay_two_documents(tmp_path, ingest):
    (tmp_path / "a.jsonl").write_text('{"text": "same"}\n' * 2)
    assert len({row["id"] for row in ingest(tmp_path).rows}) == 2


def test_a_natural_key_keeps_the_id_when_lines_are_put_before(tmp_path, ingest):
    line = '{"text": "kept", "key": 17}\n'
    (tmp_path / "a.jsonl").write_text(line)
    before = ingest({"path": tmp_path, "id_column": "key"}).rows[0]["id"]
    (tmp_path / "a.jsonl").write_text('{"text": "new", "key": 1}\n' + line)
    assert before in {row["id"] for row in ingest({"path": tmp_path, "id_column": "key"}).rows}


def test_a_key_that_repeats_is_refused_with_the_row(tmp_path, ingest):
    (tmp_path / "a.jsonl").write_text('{"text": "same", "key": 17}\n' * 2)
    with pytest.raises(DataError, match=r"'s0' gives the same key.*a\.jsonl"):
        ingest({"path": tmp_path, "id_column": "key"})


def test_documents_are_the_same_wherever_the_folder_lies(tmp_path, ingest):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "a.txt").write_text("text")
    shutil.copytree(tmp_path / "here", tmp_path / "there" / "deeper")
    here, there = ingest(tmp_path / "here"), ingest(tmp_path / "there" / "deeper")
    assert rows_digest(here.out) == rows_digest(there.out)
    assert fingerprint(config_of(tmp_path / "here")) == fingerprint(config_of(tmp_path / "there" / "deeper"))


def test_the_path_is_outside_the_identity_and_the_other_knobs_are_in_it():
    assert identity_of(config_of("a")) == identity_of(config_of("b"))
    assert identity_of(config_of("a")) != identity_of(config_of("a", num_shards=7))


@pytest.mark.parametrize("change", ["append", "rename", "add"])
def test_the_fingerprint_sees_every_change_of_the_files(tmp_path, change):
    (tmp_path / "a.txt").write_text("text")
    before = fingerprint(config_of(tmp_path))
    if change == "append":
        with (tmp_path / "a.txt").open("a") as file:
            file.write("!")
    elif change == "rename":
        (tmp_path / "a.txt").rename(tmp_path / "b.txt")
    else:
        (tmp_path / "b.txt").write_text("text")
    assert fingerprint(config_of(tmp_path)) != before


def test_the_fingerprint_is_name_size_and_sha256(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"abc")
    # The digest of "abc" is the example of FIPS 180-2, appendix B.1.
    sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert fingerprint(config_of(tmp_path)) == {"s0": [["a.txt", 3, sha256]]}


def test_all_missing_sources_are_named_at_once(tmp_path, ingest):
    (tmp_path / "there.txt").write_text("text")
    with pytest.raises(ConfigError) as caught:
        ingest(tmp_path / "gone", tmp_path / "there.txt", tmp_path / "no*.txt")
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "ingest.sources[0].path",
        "ingest.sources[2].path",
    ]


def test_a_template_makes_the_text_and_keeps_its_columns(tmp_path, ingest):
    pairs = [{"en": "Open {file}", "zh": "打开文件"}, {"en": "Close", "zh": ""}, {"en": "Save"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    done = ingest({"path": tmp_path, "template": "English: {en}\nChinese: {zh}"}, max_malformed_share=0.5)
    assert done.texts == ["English: Open {file}\nChinese: 打开文件"]
    assert json.loads(done.rows[0]["meta"]) == {"file": "a.jsonl", "row": 1, **pairs[0]}
    assert (done.result.num_empty, done.result.malformed) == (1, {"missing_text": 1})


@pytest.mark.parametrize("template", ["no column", "{en", "{en!r}", "{en:>3}", "{en.x}", "{}"])
def test_a_template_that_is_no_plain_one_is_refused(template):
    with pytest.raises(ConfigError, match="template"):
        validated(IngestConfig, {"sources": [{"name": "a", "path": "a", "template": template}]}, stage="ingest")


def test_two_sources_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="same name: a"):
        validated(IngestConfig, {"sources": [{"name": "a", "path": "x"}, {"name": "a", "path": "y"}]}, stage="ingest")


def test_the_order_of_sources_and_files_does_not_change_the_documents(tmp_path, ingest):
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(name)
    a, b = ({"name": name, "path": tmp_path / f"{name}.txt"} for name in "ab")
    assert rows_digest(ingest(a, b).out) == rows_digest(ingest(b, a).out)
