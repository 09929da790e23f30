"""What can be turned when text is repaired and filtered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from tasks.core.config import Config, runtime

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]

Preprocessing = Literal["bullet_points", "hyphenated_words", "html_tags", "quotation_marks"]

EnglishRule = Literal[
    "too_few_words",
    "too_many_words",
    "word_length",
    "symbols",
    "bullet_lines",
    "ellipsis_lines",
    "few_alphabetic_words",
    "few_stop_words",
    "few_ended_lines",
    "short_lines",
    "many_line_breaks",
    "lorem_ipsum",
    "curly_brace",
    "duplicate_lines",
    "duplicate_paragraphs",
    "top_ngrams",
    "duplicate_ngrams",
    "few_sentences",
]
ChineseRule = Literal[
    "too_few_chars",
    "few_chinese_chars",
    "short_average_line",
    "bullet_lines",
    "ellipsis_lines",
    "few_stop_chars",
    "few_ended_lines",
    "duplicate_lines",
    "duplicate_paragraphs",
    "repeated_passages",
    "few_sentences",
]


@dataclass(frozen=True, kw_only=True)
class LineLimits(Config):
    """Limits on lines and paragraphs, for documents of every language."""

    max_bullet_lines: Share = 0.9
    """Largest share of lines that begin with a bullet (Gopher: 0.9)."""
    max_ellipsis_lines: Share = 0.3
    """Largest share of lines that end in an ellipsis (Gopher: 0.3)."""
    max_duplicate_lines: Share = 0.3
    """Largest share of lines, and of paragraphs, that are copies of an earlier one (Gopher: 0.3)."""
    max_duplicate_chars: Share = 0.2
    """Largest share of characters in such copies (Gopher: 0.2)."""
    min_ended_lines: Share = 0.12
    """Share of lines with punctuation at their end that must be exceeded (FineWeb: 0.12)."""
    min_sentences: Count = 3
    """Smallest number of sentences, by spaCy (C4: 3)."""


@dataclass(frozen=True, kw_only=True)
class EnglishLimits(LineLimits):
    """Rules for English, and for each the limit its paper gives."""

    rules: tuple[EnglishRule, ...] = (
        "too_few_words",
        "too_many_words",
        "word_length",
        "symbols",
        "bullet_lines",
        "ellipsis_lines",
        "few_alphabetic_words",
        "few_stop_words",
        "few_ended_lines",
        "short_lines",
        "many_line_breaks",
        "lorem_ipsum",
        "duplicate_lines",
        "duplicate_paragraphs",
        "top_ngrams",
        "duplicate_ngrams",
        "few_sentences",
    )
    """The rules to apply, in this order; the first that takes a document is its reason. C4's curly_brace is left out
    because it takes every text with a piece of code."""
    min_words: Count = 50
    """Fewest words (Gopher: 50)."""
    max_words: Count = 100_000
    """Most words (Gopher: 100,000)."""
    min_word_length: Annotated[float, Field(ge=0)] = 3.0
    """Smallest mean length of a word in characters (Gopher: 3)."""
    max_word_length: Annotated[float, Field(ge=0)] = 10.0
    """Largest mean length of a word in characters (Gopher: 10)."""
    max_symbols: Annotated[float, Field(ge=0)] = 0.1
    """Most hash signs, or ellipses, for each word (Gopher: 0.1)."""
    min_alphabetic_words: Share = 0.8
    """Smallest share of words that hold a letter (Gopher: 0.8)."""
    min_stop_words: Count = 2
    """Fewest occurrences of the, be, to, of, and, that, have, with (Gopher: 2)."""
    max_short_lines: Share = 0.67
    """Share of lines of at most 30 characters from which a document is dropped (FineWeb: 0.67)."""
    max_line_breaks: Annotated[float, Field(ge=0)] = 0.3
    """Most line breaks for each word (FineWeb: 0.3)."""


@dataclass(frozen=True, kw_only=True)
class ChineseLimits(LineLimits):
    """Rules for Chinese: those of ChineseWebText, and Gopher's and FineWeb's that do not need words."""

    rules: tuple[ChineseRule, ...] = (
        "too_few_chars",
        "few_chinese_chars",
        "short_average_line",
        "bullet_lines",
        "ellipsis_lines",
        "few_stop_chars",
        "few_ended_lines",
        "duplicate_lines",
        "duplicate_paragraphs",
        "repeated_passages",
        "few_sentences",
    )
    """The rules to apply, in this order; the first that takes a document is its reason."""
    min_chars: Count = 200
    """Number of characters that must be exceeded (ChineseWebText: 200)."""
    min_chinese_share: Share = 0.3
    """Smallest share of Chinese among all characters (ChineseWebText: 0.3)."""
    min_average_line: Annotated[float, Field(ge=0)] = 10.0
    """Smallest mean length of a line in characters (ChineseWebText: 10)."""
    min_stop_chars: Count = 2
    """Fewest occurrences of common function characters such as 的, 是, 不, 之 (Gopher's stop words, in Chinese)."""
    max_repeated_passages: Share = 0.5
    """Largest share of 13-character passages that occur more than once (ChineseWebText: 0.5)."""


@dataclass(frozen=True, kw_only=True)
class RecordLimits(Config):
    """The one rule for short records: it needs no words, lines or length."""

    max_repeated_passages: Share = 0.5
    """Largest share of 13-character passages that occur more than once (ChineseWebText: 0.5)."""


@dataclass(frozen=True, kw_only=True)
class CleanConfig(Config):
    """Repair text, tell its language, and drop what the published heuristics take."""

    languages: Annotated[tuple[str, ...], Field(min_length=1)] = ("en", "zh")
    """Languages to keep, as ISO 639 codes. Translation pairs (meta with en and zh) have the language en-zh and are
    kept when both their languages are."""
    min_language_score: Share = 0.5
    """Smallest confidence of the language model for a document that is no record (CCNet, same model: 0.5)."""
    record_sources: tuple[str, ...] = ()
    """Sources whose documents are short records (translation pairs, poems): repair, language and repetition apply to
    them, rules about length, lines and sentences do not."""
    preprocessing: tuple[Preprocessing, ...] = ("bullet_points",)
    """Steps of textacy after the repair, in this order. hyphenated_words and quotation_marks apply to English alone:
    they would take Chinese for Latin words and turn its quotation marks into ASCII."""
    unescape_html: bool = True
    """Turn HTML entities into characters in texts that have no HTML tags."""
    max_chars: Annotated[int, Field(gt=0)] = 1_000_000
    """Longer documents are dropped before any other work; it bounds the time one document can take."""
    judge_code: bool = False
    """Let the rules count what stands between Markdown fences (```) as well; a document keeps its code either way."""
    english: EnglishLimits = field(default_factory=EnglishLimits)
    """Rules and limits for English."""
    chinese: ChineseLimits = field(default_factory=ChineseLimits)
    """Rules and limits for Chinese."""
    records: RecordLimits = field(default_factory=RecordLimits)
    """Limits for short records, and for languages without rules of their own."""
    workers: Annotated[int, Field(gt=0)] = runtime(2)
    """Most processes that share the work; a small corpus is done sooner by fewer."""
