import json
import pickle
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

from tasks.clean.config import CleanConfig
from tasks.clean.documents import CleanBatch
from tasks.clean.fingerprint import fingerprint
from tasks.core import documents
from tasks.core.errors import DataError

PAIR = {"en": "Open the file", "zh": "打开文件"}


def pair_text(pair):
    return f"English: {pair['en']}\nChinese: {pair['zh']}"


def test_kept_documents_get_a_language_and_dropped_ones_a_reason(cleaned, prose, chinese_prose):
    rows = [(prose, "web", {}), (chinese_prose, "web", {}), ("Too short to keep.", "web", {}), (" \u200b ", "web", {})]
    result, out = cleaned(rows)
    kept = documents.read_table(out).to_pylist()
    assert {row["language"]: row["text"] for row in kept} == {"en": prose, "zh": chinese_prose}
    assert (result.num_in, result.num_out, result.by_language) == (4, 2, {"en": 1, "zh": 1})
    assert result.dropped == {"empty": 1, "too_few_words": 1}
    reasons = [row for path in (out / "report").glob("dropped-*.parquet") for row in pq.read_table(path).to_pylist()]
    assert {row["drop_reason"] for row in reasons} == {"empty", "too_few_words"}


def test_a_repaired_text_gets_a_new_digest_and_keeps_its_id(cleaned, prose):
    broken = prose + " The cafÃ© is closed."
    result, out = cleaned([(broken, "web", {}), (prose, "web", {})])
    rows = {row["text"]: row for row in documents.read_table(out).to_pylist()}
    whole = prose + " The café is closed."
    assert set(rows) == {whole, prose}
    assert rows[whole]["text_digest"] == documents.text_digest(whole)
    assert rows[whole]["id"] == documents.document_id("web", "0", documents.text_digest(broken))
    assert result.num_repaired == 1


def test_a_translation_pair_is_short_mixed_and_kept(clean):
    done = clean(pair_text(PAIR), meta=PAIR)
    assert (done.language, done.reason) == ("en-zh", "")


def test_both_sides_of_a_pair_are_repaired_as_the_text_is(clean):
    pair = {"en": "The cafÃ© is\u200b open", "zh": "咖啡馆\u00a0开着"}
    done = clean(pair_text(pair), meta=pair | {"row": 3})
    meta = json.loads(done.meta)
    assert meta == {"en": "The café is open", "zh": "咖啡馆 开着", "row": 3}
    assert done.text == pair_text(meta)


@pytest.mark.parametrize(
    "pair", [{"en": "OK", "zh": "OK"}, {"en": "1 > 2", "zh": "一大于二"}, {"en": "Save", "zh": "Save as"}]
)
def test_a_pair_that_was_never_translated_is_dropped(clean, pair):
    assert clean(pair_text(pair), meta=pair).reason == "not_translated"


def test_pairs_need_both_their_languages(clean):
    assert clean(pair_text(PAIR), meta=PAIR, languages=["en"]).reason == "language"


def test_a_record_is_free_of_rules_about_length_but_not_of_repetition(clean):
    poem = "春眠不觉晓，处处闻啼鸟。\n夜来风雨声，花落知多少。"
    assert clean(poem, "poems").reason == "too_few_chars"
    assert clean(poem, "poems", record_sources=["poems"]).reason == ""
    assert clean("春眠不觉晓，" * 30, "poems", record_sources=["poems"]).reason == "repeated_passages"


def test_other_languages_are_dropped_and_can_be_asked_for(clean):
    german = "Das Rad dreht sich, weil das Wasser auf einer Seite höher steht als auf der anderen. " * 1
    assert clean(german).reason == "language"
    done = clean(german, languages=["de"])
    assert (done.language, done.reason) == ("de", "")


def test_an_unsure_language_is_its_own_reason(clean, prose):
    assert clean(prose, min_language_score=1.0).reason == "language_unsure"


def test_nothing_left_names_the_rule_that_took_the_most(cleaned):
    rows = [("Too short to keep.", "web", {}), ("This one is short too.", "web", {}), ("", "web", {})]
    with pytest.raises(DataError, match=r"too_few_words took 2 of 3 \(too_few_words 2, empty 1\)") as caught:
        cleaned(rows)
    assert "clean.record_sources" in caught.value.next_step


def test_no_document_to_begin_with_is_said_so(cleaned):
    with pytest.raises(DataError, match="no document to clean"):
        cleaned([])


def test_a_record_source_that_does_not_occur_is_told(cleaned, prose, monkeypatch):
    notes = []
    monkeypatch.setattr("tasks.clean.stage.events.note", notes.append)
    cleaned([(prose, "web", {})], record_sources=["poem"])
    assert notes == ["clean.record_sources names 'poem', of which there is no document; there are ['web']"]


def test_a_document_of_50_mb_is_dropped_before_any_work(clean):
    start_s = time.process_time()
    assert clean("x" * 50_000_000).reason == "too_long"
    assert time.process_time() - start_s < 1


@pytest.mark.parametrize("unit", [" ", "x", "字", "\n", "a ", "-", "。", "\u200b", "Ã©", "&amp;", "<", "word. "])
def test_the_longest_document_allowed_takes_seconds(clean, unit):
    start_s = time.process_time()
    clean((unit * 1_000_000)[:1_000_000])
    assert time.process_time() - start_s < 20


def test_the_function_can_be_sent_to_another_process_and_makes_the_same_there(prose):
    # Starting a process costs more than all other tests here; that the engine does it right is the engine's test.
    texts = [prose + " The cafÃ© is closed.", "short", ""]
    digests = [documents.text_digest(text) for text in texts]
    rows = [
        {"id": str(n), "text": text, "text_digest": digest, "source": "web", "meta": "{}"}
        for n, (text, digest) in enumerate(zip(texts, digests, strict=True))
    ]
    [batch] = documents.table_of(rows).to_batches()
    function = CleanBatch(CleanConfig())
    sent = pickle.loads(pickle.dumps(function))
    assert sent(batch).equals(function(batch))
    assert sent(batch).column("drop_reason").to_pylist() == ["", "too_few_words", "empty"]


def test_handing_out_the_work_loads_none_of_the_heavy_libraries():
    code = "import sys, tasks.clean.stage; print(sorted({'spacy', 'textacy', 'torch', 'ftfy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_language_model_is_part_of_the_fingerprint(cleaned, prose):
    result, _ = cleaned([(prose, "web", {})])
    assert fingerprint(CleanConfig()) == {"language_model": ["lid.176.ftz", result.language_model_digest]}
