"""Rules for English, from the papers whose corpora they made. A rule answers whether it takes the document.

C4: Raffel et al., 2020, "Exploring the Limits of Transfer Learning", section 2.2.
Gopher: Rae et al., 2021, "Scaling Language Models", appendix A1.1 and table A1.
FineWeb: Penedo et al., 2024, "The FineWeb Datasets", section 3.6.
"""

from __future__ import annotations

from collections.abc import Callable

from tasks.clean import line_rules
from tasks.clean.config import EnglishLimits
from tasks.clean.page import Page
from tasks.clean.sentences import has_sentences

STOP_WORDS = frozenset(("the", "be", "to", "of", "and", "that", "have", "with"))
SHORT_LINE_CHARS = 30
ENDS = (".", "!", "?", '"', "”", "'", "’", "…", ":", ";", ")")
TOP_NGRAMS = {2: 0.20, 3: 0.18, 4: 0.16}
"""Largest share of characters in the most frequent n-gram (Gopher, table A1)."""
DUPLICATE_NGRAMS = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}
"""Largest share of characters in n-grams that occurred before (Gopher, table A1)."""

Rule = Callable[[Page, EnglishLimits], bool]


def too_few_words(page: Page, limits: EnglishLimits) -> bool:
    """Fewer than 50 words (Gopher)."""
    return len(page.words) < limits.min_words


def too_many_words(page: Page, limits: EnglishLimits) -> bool:
    """More than 100,000 words (Gopher)."""
    return len(page.words) > limits.max_words


def word_length(page: Page, limits: EnglishLimits) -> bool:
    """Words of less than 3 or more than 10 characters in the mean (Gopher)."""
    mean = sum(map(len, page.words)) / max(len(page.words), 1)
    return not limits.min_word_length <= mean <= limits.max_word_length


def symbols(page: Page, limits: EnglishLimits) -> bool:
    """More than one hash sign, or one ellipsis, for ten words (Gopher)."""
    most = limits.max_symbols * len(page.words)
    return page.text.count("#") > most or page.text.count("...") + page.text.count("…") > most


def few_alphabetic_words(page: Page, limits: EnglishLimits) -> bool:
    """Fewer than 80% of words hold a letter (Gopher)."""
    with_letter = sum(word.isalpha() or any(map(str.isalpha, word)) for word in page.words)
    return with_letter < limits.min_alphabetic_words * len(page.words)


def few_stop_words(page: Page, limits: EnglishLimits) -> bool:
    """Fewer than two of the eight most usual function words (Gopher)."""
    found = 0
    for word in page.words:
        found += word.lower() in STOP_WORDS
        if found >= limits.min_stop_words:
            return False
    return found < limits.min_stop_words


def few_ended_lines(page: Page, limits: EnglishLimits) -> bool:
    """At most 12% of lines end in punctuation (FineWeb)."""
    return line_rules.ends_too_few_lines(page, limits, ENDS)


def short_lines(page: Page, limits: EnglishLimits) -> bool:
    """At least 67% of lines have at most 30 characters (FineWeb)."""
    short = sum(len(line) <= SHORT_LINE_CHARS for line in page.lines)
    return short >= limits.max_short_lines * max(len(page.lines), 1)


def many_line_breaks(page: Page, limits: EnglishLimits) -> bool:
    """More than three line breaks for ten words (FineWeb): a list or a table."""
    return page.text.count("\n") > limits.max_line_breaks * len(page.words)


def lorem_ipsum(page: Page, _: EnglishLimits) -> bool:
    """A designer's dummy text (C4)."""
    return "lorem ipsum" in page.text.lower()


def curly_brace(page: Page, _: EnglishLimits) -> bool:
    """A curly brace, the mark of code (C4)."""
    return "{" in page.text


def top_ngrams(page: Page, _: EnglishLimits) -> bool:
    """The most frequent phrase of two, three or four words holds more than 20, 18 or 16% of the characters (Gopher)."""
    return any(page.ngrams.top_share(n) > most for n, most in TOP_NGRAMS.items())


def duplicate_ngrams(page: Page, _: EnglishLimits) -> bool:
    """Phrases of five to ten words that occurred before hold more than 15 to 10% of the characters (Gopher)."""
    return any(page.ngrams.duplicate_share(n) > most for n, most in DUPLICATE_NGRAMS.items())


def few_sentences(page: Page, limits: EnglishLimits) -> bool:
    """Fewer than three sentences (C4)."""
    return not has_sentences(page.text, limits.min_sentences, "en")


RULES: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        too_few_words,
        too_many_words,
        word_length,
        symbols,
        line_rules.bullet_lines,
        line_rules.ellipsis_lines,
        few_alphabetic_words,
        few_stop_words,
        few_ended_lines,
        short_lines,
        many_line_breaks,
        lorem_ipsum,
        curly_brace,
        line_rules.duplicate_lines,
        line_rules.duplicate_paragraphs,
        top_ngrams,
        duplicate_ngrams,
        few_sentences,
    )
}
