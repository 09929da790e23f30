import random
import unicodedata

import ftfy
import pytest

from tasks.clean.repair import preprocessor, repair


@pytest.mark.parametrize(
    ("broken", "whole"),
    [
        ("The cafÃ© is closed â€” sorry", "The café is closed — sorry"),
        ("naïve".encode().decode("latin-1") + " idea", "naïve idea"),
        ("zero\u200bwidth, soft\u00adhyphen, mark\ufeff", "zerowidth, softhyphen, mark"),
        ("over\u202eride and bell\x07", "override and bell"),
        ("a\u00a0b\u2003c", "a b c"),
        ("line  \r\nnext\rlast\u3000", "line\nnext\nlast"),
        ("one\n\n\n\n\ntwo\n\n", "one\n\ntwo"),
        ("caf\u0065\u0301", "café"),
        ("AT&amp;T &lt;tag&gt;", "AT&T <tag>"),
        ("\x1b[31mred\x1b[0m", "red"),
    ],
)
def test_damage_is_repaired(broken, whole):
    assert repair(broken) == whole


@pytest.mark.parametrize(
    "text",
    [
        "他说：“你好，世界！”（真的？）——是的……",
        "「引用」『书名』《红楼梦》、全角ＡＢＣ１２３",
        "def f(x):\n    if x:\n        return 'a'",
        "Vec<T> &amp; <b>bold</b>",
        "It’s a “quoted” text",
        "family: \N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL}",
        "春眠不觉晓，\n处处闻啼鸟。",
    ],
)
def test_whole_text_is_left_to_the_letter(text):
    assert repair(text) == text


def test_entities_stay_when_the_knob_is_off():
    assert repair("AT&amp;T", unescape_html=False) == "AT&amp;T"


@pytest.mark.parametrize("seed", range(50))
def test_lines_that_skip_ftfy_are_those_it_would_not_change(seed):
    source = random.Random(seed)
    alphabet = [
        chr(code) for code in (*range(0x20, 0x7F), 0x2014, 0x2018, 0x2019, 0x201C, 0x201D, 0x2026) if code != 0x26
    ]
    alphabet += [chr(source.choice([*range(0x3000, 0x3040), *range(0x4E00, 0xA000)])) for _ in range(80)]
    line = "x" + "".join(source.choices(alphabet, k=200)) + "x"
    settings = {"uncurl_quotes": False, "fix_character_width": False, "normalization": "NFC"}
    assert repair(line) == ftfy.fix_text(line, **settings)


@pytest.mark.parametrize("seed", range(20))
def test_repairing_twice_changes_nothing_more(seed):
    source = random.Random(seed)
    text = "".join(
        chr(source.choice([*range(1, 0x250), *range(0x2000, 0x2070), *range(0x4E00, 0x4F00)])) for _ in range(300)
    )
    once = repair(text)
    assert repair(once) == once
    assert unicodedata.is_normalized("NFC", once)


def test_textacy_steps_are_those_asked_for():
    text = "• one\n• ex-\nample “q”"
    assert preprocessor(("bullet_points",), latin=True)(text) == "- one\n- ex-\nample “q”"
    assert preprocessor(("hyphenated_words", "quotation_marks"), latin=True)(text) == '• one\n• example "q"'


def test_steps_that_damage_chinese_are_for_latin_text_alone():
    text = "他说“你好”，文件- 名称"
    steps = preprocessor(("hyphenated_words", "quotation_marks"), latin=False)
    assert steps(text) == text
