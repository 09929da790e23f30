import unicodedata

import pytest

from tasks.text.words import count_cjk, is_cjk, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The quick, brown fox.", ["the", "quick", "brown", "fox"]),
        ("Don't stop; it’s 3.14", ["don't", "stop", "it’s", "3", "14"]),
        ("模型 model的训练", ["模", "型", "model", "的", "训", "练"]),
        ("カタカナとひらがな", list("カタカナとひらがな")),
        ("한국어 문장", ["한국어", "문장"]),
        ("snake_case naïve", ["snake", "case", "naïve"]),
        ("𠮷野家", ["𠮷", "野", "家"]),
        ("，。！ … — # $", []),
        ("", []),
    ],
)
def test_latin_words_go_by_boundaries_and_each_chinese_character_is_one(text, expected):
    assert words(text) == expected


def test_a_decomposed_accent_does_not_split_a_word():
    decomposed = unicodedata.normalize("NFD", "Besançon")
    assert words(decomposed) == [decomposed.lower()]


def test_cjk_agrees_with_the_names_unicode_gives():
    kinds = ("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH", "HIRAGANA LETTER", "KATAKANA LETTER")
    named = {chr(code) for code in range(0x32000) if unicodedata.name(chr(code), "").startswith(kinds)}
    halfwidth = {ch for ch in named if "HALFWIDTH" in unicodedata.name(ch)}
    beyond_kana_blocks = {ch for ch in named if 0x1AFF0 <= ord(ch) <= 0x1B16F}
    assert {ch for ch in named if not is_cjk(ch)} <= halfwidth | beyond_kana_blocks
    assert not any(is_cjk(ch) for ch in map(chr, range(0x3000)))


def test_counting_cjk_counts_what_is_cjk():
    text = "漢字 and かな, 한국어。"
    assert count_cjk(text) == sum(map(is_cjk, text)) == 4
