"""How values are written on a page."""

import pytest

from plugins.views.values import MAX_VALUE_CHARS, headline, nested, shown, simple, size, slug, when


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "yes"),
        (2048000, "2,048,000"),
        (0.03, "0.03"),
        (8.303601741790771, "8.3036"),
        (None, "none"),
        ([], "none"),
        (["en", "zh"], "en, zh"),
        ([1, 2], "[1, 2]"),
        ("白日依山盡", "白日依山盡"),
    ],
)
def test_a_value_is_written_in_one_short_line(value, text):
    assert shown(value) == text


def test_a_long_value_is_cut():
    assert len(shown("x" * 1000)) == MAX_VALUE_CHARS


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1 kB"), (999_999, "1000 kB"), (3_865_000, "3.865 MB")],
)
def test_a_size_has_a_unit_that_fits(num_bytes, text):
    assert size(num_bytes) == text


def test_values_that_hold_values_get_a_table_of_their_own():
    values = {"a": 1, "b": {"c": 2}, "d": [{"e": 3}], "f": [1], "g": {}}
    assert list(simple(values)) == ["a", "f", "g"]
    assert list(nested(values)) == ["b", "d"]


def test_the_headline_is_the_first_numbers_those_of_parts_only_where_there_is_no_other():
    assert headline({"num_in": 1200, "name": "x", "by": {"a": 1}, "num_out": 3}) == "1,200 in · 3 out"
    assert headline({"num_tokens": {"train": 7, "test": 1}}) == "7 tokens train · 1 tokens test"


def test_a_time_is_told_to_the_minute():
    assert when("2026-11-30T20:34:59+00:00") == "2026-11-30 20:34 UTC"


def test_a_title_becomes_the_name_of_an_element():
    assert slug("BLEU, English to Chinese") == "bleu-english-to-chinese"
