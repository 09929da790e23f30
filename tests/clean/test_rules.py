from typing import get_args

import pytest

from tasks.clean import chinese, config, english
from tasks.clean.page import prose_of

LINES = "\n".join(f"This is line {number}, and it ends with the words that end line {number}." for number in range(12))

ENGLISH = {
    "too_few_words": lambda prose: " ".join(prose.split()[:49]) + ".",
    "too_many_words": lambda prose: prose + " word" * 100_000,
    "word_length": lambda prose: " ".join(word + "abcdefgh" for word in prose.split()),
    "symbols": lambda prose: prose.replace(" the ", " the # # # "),
    "bullet_lines": lambda prose: "\n".join(f"- {piece}." for piece in prose.split(", ")),
    "ellipsis_lines": lambda prose: "\n".join(piece + "..." for piece in prose.split(". ")),
    "few_alphabetic_words": lambda prose: prose + " 12 34 56" * 10,
    "few_stop_words": lambda prose: " ".join(f"{word}x" for word in prose.split()),
    "few_ended_lines": lambda prose: "\n".join(piece + " and" for piece in prose.split(". ")),
    "short_lines": lambda prose: "\n".join(piece[:29] + "." for piece in (prose * 2).split(" the ")),
    "many_line_breaks": lambda prose: prose.replace(" ", "\n"),
    "lorem_ipsum": lambda prose: prose + " Lorem ipsum dolor sit amet.",
    "curly_brace": lambda prose: prose + " {",
    "duplicate_lines": lambda prose: "\n".join([prose, prose]),
    "duplicate_paragraphs": lambda prose: "\n\n".join([prose, prose]),
    "top_ngrams": lambda prose: prose + " miller's daughter" * 20,
    "duplicate_ngrams": lambda prose: prose + " " + " ".join(prose.split()[:40]),
    "few_sentences": lambda prose: prose.replace(".", ","),
}
CHINESE = {
    "too_few_chars": lambda prose: prose[:200],
    "few_chinese_chars": lambda prose: prose[:60] + "abcdefghij " * 30,
    "short_average_line": lambda prose: prose.replace("，", "，\n").replace("的", "的\n").replace("了", "\n了"),
    "bullet_lines": lambda prose: "\n".join(f"- {piece}。" for piece in prose.split("。")),
    "ellipsis_lines": lambda prose: prose.replace("。", "……\n"),
    "few_stop_chars": lambda prose: "".join(ch for ch in prose if ch not in chinese.STOP_CHARS),
    "few_ended_lines": lambda prose: prose.replace("。", "\n").replace("，", "\n"),
    "duplicate_lines": lambda prose: "\n".join([prose, prose]),
    "duplicate_paragraphs": lambda prose: "\n\n".join([prose, prose]),
    "repeated_passages": lambda prose: prose + prose,
    "few_sentences": lambda prose: prose.replace("。", "，"),
}


@pytest.mark.parametrize("rule", ENGLISH)
def test_an_english_rule_takes_what_it_is_for_and_leaves_prose(clean, prose, rule):
    text = ENGLISH[rule](prose)
    assert clean(text, english={"rules": [rule]}, min_language_score=0, languages=["en", "und", "nl"]).reason == rule
    assert clean(prose, english={"rules": [rule]}).reason == ""


@pytest.mark.parametrize("rule", CHINESE)
def test_a_chinese_rule_takes_what_it_is_for_and_leaves_prose(clean, chinese_prose, rule):
    text = CHINESE[rule](chinese_prose)
    assert clean(text, chinese={"rules": [rule]}, min_language_score=0).reason == rule
    assert clean(chinese_prose, chinese={"rules": [rule]}).reason == ""


def test_every_rule_has_a_test_a_name_and_a_function():
    assert set(ENGLISH) == set(get_args(config.EnglishRule)) == set(english.RULES)
    assert set(CHINESE) == set(get_args(config.ChineseRule)) == set(chinese.RULES)


def test_prose_passes_all_rules(clean, prose, chinese_prose):
    assert clean(prose).reason == ""
    assert clean(chinese_prose).reason == ""


@pytest.mark.parametrize(
    ("knob", "limit", "reason"),
    [
        ("min_words", 200, "too_few_words"),
        ("max_words", 70, "too_many_words"),
        ("min_word_length", 8.0, "word_length"),
        ("min_stop_words", 60, "few_stop_words"),
        ("min_sentences", 40, "few_sentences"),
        ("max_short_lines", 0.0, "short_lines"),
        ("min_ended_lines", 1.0, "few_ended_lines"),
    ],
)
def test_the_limit_is_a_knob(clean, prose, knob, limit, reason):
    assert clean(prose, english={knob: limit}).reason == reason


def test_the_first_rule_in_the_order_given_is_the_reason(clean, prose):
    text = prose.replace(" ", "\n")
    rules = ["short_lines", "many_line_breaks"]
    assert clean(text, english={"rules": rules}).reason == rules[0]
    assert clean(text, english={"rules": rules[::-1]}).reason == rules[1]


LISTING = "```rust\nfn main() {\n" + "    let wheel = Wheel::new(12);\n    }\n" * 40 + "}\n```"


def test_code_between_fences_is_kept_and_not_judged(clean, prose):
    text = f"{prose}\n\n{LISTING}\n\nThat is how the wheel is turned."
    done = clean(text)
    assert (done.text, done.reason) == (text, "")
    assert clean(text, judge_code=True).reason != ""


def test_a_document_of_code_alone_has_no_words(clean):
    assert clean(LISTING, min_language_score=0, languages=["en", "und"]).reason in ("too_few_words", "language")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n```\ncode\n```\nb", "a\nb"),
        ("a\n  ~~~py\n```\ncode\n~~~\nb", "a\nb"),
        ("a\n```\nnever closed\nb", "a"),
        ("inline ``` is no fence", "inline ``` is no fence"),
    ],
)
def test_prose_is_what_stands_outside_fences(text, expected):
    assert prose_of(text) == expected


def test_c4s_brace_rule_is_there_for_who_wants_it(clean, prose):
    assert clean(prose + " A { is a brace.").reason == ""
    assert clean(prose + " A { is a brace.", english={"rules": ["curly_brace"]}).reason == "curly_brace"
