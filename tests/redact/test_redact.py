import json

import pytest
from upath import UPath

from tasks.core import documents
from tasks.core.config import validated
from tasks.core.errors import ConfigError
from tasks.redact.config import RedactConfig
from tasks.redact.stage import run
from tasks.text.pii import KINDS

CONTACT = "请联系li@example.com或13812345678。"


def row(text, source="web", **meta):
    digest = documents.text_digest(text)
    number = documents.document_id(source, json.dumps(meta), digest)
    return {"id": number, "text": text, "text_digest": digest, "source": source, "meta": json.dumps(meta)}


@pytest.fixture
def redacted(tmp_path):
    def go(*rows, **knobs):
        before, after = UPath(tmp_path / "before"), UPath(tmp_path / "after")
        documents.write_documents(before, documents.table_of(rows), 2)
        result = run(validated(RedactConfig, {"workers": 1} | knobs, stage="redact"), before, out=after)
        by_id = {one["id"]: one for one in documents.read_table(after).to_pylist()}
        return (
            [by_id[one["id"]] for one in rows],
            result,
            json.loads((after / "report" / "redactions.json").read_text()),
        )

    return go


def test_the_text_is_redacted_and_its_digest_made_new(redacted):
    [done], result, _ = redacted(row(CONTACT))
    assert done["text"] == "请联系<EMAIL>或<PHONE>。"
    assert done["text_digest"] == documents.text_digest(done["text"])
    assert result.num_redacted == 1


def test_a_document_without_personal_data_is_not_touched(redacted):
    before = row("Nothing to see at 127.0.0.1.", title="A title")
    [done], result, _ = redacted(before)
    assert done == before
    assert result.num_redacted == 0


def test_both_sides_of_a_pair_in_meta_read_as_they_do_in_the_text(redacted):
    en, zh = "Call 13812345678 now", "请拨打13812345678。"
    [done], result, _ = redacted(row(f"English: {en}\nChinese: {zh}", en=en, zh=zh, file="a.jsonl", row=7))
    meta = json.loads(done["meta"])
    assert done["text"] == f"English: {meta['en']}\nChinese: {meta['zh']}"
    assert "<PHONE>" in meta["en"]
    assert (meta["file"], meta["row"]) == ("a.jsonl", 7)
    assert result.by_kind["phone"] == 2


def test_meta_is_redacted_at_every_depth_but_not_the_name_of_the_file(redacted):
    [done], _, _ = redacted(row("text", authors=[{"mail": "a@example.com"}], file="dump-13812345678.jsonl"))
    assert json.loads(done["meta"]) == {"authors": [{"mail": "<EMAIL>"}], "file": "dump-13812345678.jsonl"}


def test_counts_are_by_kind_and_source_and_hold_no_personal_data(redacted, tmp_path):
    rows = [row(CONTACT, "a"), row(CONTACT + " 203.0.113.7", "b"), row("plain", "b")]
    _, result, report = redacted(*rows)
    assert result.by_kind == {"card": 0, "cn_id": 0, "email": 2, "ip": 1, "phone": 2}
    assert result.by_source == {"a": 2, "b": 3}
    assert report["by_source"]["b"] == {"card": 0, "cn_id": 0, "email": 1, "ip": 1, "phone": 1}
    assert "13812345678" not in json.dumps(report)


def test_placeholders_the_text_already_had_are_not_counted(redacted):
    _, result, _ = redacted(row("write to <EMAIL> or a@example.com"))
    assert result.by_kind["email"] == 1


def test_the_result_does_not_depend_on_the_number_of_workers(tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.redact.stage.WORKER_BYTES", 1)
    before = UPath(tmp_path / "before")
    rows = [row(f"{CONTACT} {number}", number=number) for number in range(40)]
    documents.write_documents(before, documents.table_of(rows), 3)
    digests = set()
    for workers in (1, 2):
        out = UPath(tmp_path / str(workers))
        run(RedactConfig(workers=workers), before, out=out)
        digests.add(documents.rows_digest(out))
    assert len(digests) == 1


def test_a_small_corpus_starts_no_process(tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.core.engine.ProcessPoolExecutor", None)
    before = UPath(tmp_path / "before")
    documents.write_documents(before, documents.table_of([row(CONTACT)]), 3)
    assert run(RedactConfig(workers=8), before, out=UPath(tmp_path / "after")).num_redacted == 1


def test_kinds_are_a_knob_and_an_unknown_one_is_refused(redacted):
    [done], _, _ = redacted(row(CONTACT), kinds=["phone"])
    assert done["text"] == "请联系li@example.com或<PHONE>。"
    with pytest.raises(ConfigError, match=r"redact\.kinds\.0"):
        validated(RedactConfig, {"kinds": ["telepathy"]}, stage="redact")


def test_the_knob_knows_exactly_the_kinds_there_are():
    assert set(RedactConfig().kinds) == set(KINDS)
