import codecs
import random

import pytest

from tasks.ingest.encodings import SAMPLE_BYTES, detect_encoding

CHINESE = "春眠不觉晓，处处闻啼鸟。\n夜来风雨声，花落知多少。\n"
MIXED = '{"text": "模型 model 的训练"}\n'

ENCODED = [
    ("utf-8", "utf-8", b""),
    ("utf-8-sig", "utf-8-sig", b""),
    ("utf-16", "utf-16", b""),
    ("utf-16-be", "utf-16", codecs.BOM_UTF16_BE),
    ("utf-16-le", "utf-16-le", b""),
    ("utf-16-be", "utf-16-be", b""),
    ("gb18030", "gb18030", b""),
    ("gbk", "gb18030", b""),
]


@pytest.mark.parametrize(("codec", "told", "mark"), ENCODED)
def test_each_encoding_is_told_from_the_bytes(codec, told, mark):
    assert detect_encoding(mark + (MIXED * 3).encode(codec)) == told


@pytest.mark.parametrize(("codec", "told", "mark"), ENCODED)
@pytest.mark.parametrize("name", ["a.jsonl", "a.txt"])
def test_each_encoding_is_read_and_reported(tmp_path, ingest, codec, told, mark, name):
    content = MIXED if name == "a.jsonl" else CHINESE + "a plain line\n" * 3
    (tmp_path / name).write_bytes(mark + content.encode(codec))
    done = ingest(tmp_path)
    assert done.texts == ["模型 model 的训练" if name == "a.jsonl" else content]
    assert done.report["s0"]["encodings"] == {told: 1}


def test_plain_chinese_prose_in_gb18030_and_utf16_is_told_without_ascii():
    assert detect_encoding(CHINESE.encode("gb18030")) == "gb18030"
    assert detect_encoding(codecs.BOM_UTF16_LE + CHINESE.encode("utf-16-le")) == "utf-16"


@pytest.mark.parametrize("seed", range(20))
def test_utf8_with_a_broken_character_stays_utf8(seed):
    content = bytearray((CHINESE * 20).encode())
    del content[random.Random(seed).randrange(len(content))]
    assert detect_encoding(bytes(content)) == "utf-8"


def test_text_that_holds_replacement_characters_is_the_utf8_it_is():
    assert detect_encoding("\ufffd\ufffd\ufffd".encode()) == "utf-8"


@pytest.mark.parametrize("text", ["naïve café, déjà vu, Zürich", "Größe über Straße", "señor mañana año"])
def test_latin1_is_not_taken_for_gb18030(text):
    assert detect_encoding(text.encode("latin-1")) == "utf-8"


def test_one_stray_zero_byte_does_not_make_utf16():
    assert detect_encoding(b"ab\0cd") == "utf-8"


def test_the_first_foreign_character_decides_even_when_it_comes_late(tmp_path, ingest):
    late = b"".join(b'{"text": "plain"}\n' for _ in range(SAMPLE_BYTES // 10)) + MIXED.encode("gb18030")
    (tmp_path / "a.jsonl").write_bytes(late)
    done = ingest(tmp_path)
    assert done.report["s0"]["encodings"] == {"gb18030": 1}
    assert done.result.num_malformed == 0
