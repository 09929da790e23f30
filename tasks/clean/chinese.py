"""Rules for Chinese. A rule answers whether it takes the document.

ChineseWebText: Chen et al., 2023, "ChineseWebText: Large-scale High-quality Chinese Web Text Extracted with
Effective Evaluation Model", section 3.2; its limits are those of the published tool. Its rules about sensitive words
and traditional characters are left out: they choose a corpus, they do not tell text from noise.
"""

from __future__ import annotations

from collections.abc import Callable

from tasks.clean import line_rules
from tasks.clean.config import ChineseLimits, RecordLimits
from tasks.clean.page import Page
from tasks.clean.repetition import repeated_share
from tasks.clean.sentences import has_sentences
from tasks.text.words import count_cjk

# The most usual function characters of modern Chinese, and of classical Chinese, which has neither 的 nor 了.
STOP_CHARS = frozenset("的了是不在有和与为这我也之其而以于者")
ENDS = ("。", "！", "？", "…", "；", "：", "”", "’", "」", "』", "）", ".", "!", "?", ";", ":", ")", '"')

Rule = Callable[[Page, ChineseLimits], bool]


def too_few_chars(page: Page, limits: ChineseLimits) -> bool:
    """At most 200 characters (ChineseWebText)."""
    return len(page.text) <= limits.min_chars


def few_chinese_chars(page: Page, limits: ChineseLimits) -> bool:
    """Fewer than 30% of all characters are Chinese (ChineseWebText)."""
    return count_cjk(page.text) < limits.min_chinese_share * len(page.text)


def short_average_line(page: Page, limits: ChineseLimits) -> bool:
    """Lines of fewer than ten characters in the mean (ChineseWebText): a menu, a table."""
    return sum(map(len, page.lines)) < limits.min_average_line * len(page.lines)


def few_stop_chars(page: Page, limits: ChineseLimits) -> bool:
    """Fewer than two function characters: Gopher's rule of stop words (Rae et al., 2021) in Chinese."""
    return sum(ch in STOP_CHARS for ch in page.text[:4000]) < limits.min_stop_chars


def few_ended_lines(page: Page, limits: ChineseLimits) -> bool:
    """At most 12% of lines end in punctuation: FineWeb's rule (Penedo et al., 2024) with Chinese marks."""
    return line_rules.ends_too_few_lines(page, limits, ENDS)


def repeated_passages(page: Page, limits: ChineseLimits | RecordLimits) -> bool:
    """More than half of the 13-character passages occur more than once (ChineseWebText)."""
    return repeated_share(page.text) > limits.max_repeated_passages


def few_sentences(page: Page, limits: ChineseLimits) -> bool:
    """Fewer than three sentences: C4's rule (Raffel et al., 2020) with Chinese marks."""
    return not has_sentences(page.text, limits.min_sentences, "zh")


RULES: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        too_few_chars,
        few_chinese_chars,
        short_average_line,
        line_rules.bullet_lines,
        line_rules.ellipsis_lines,
        few_stop_chars,
        few_ended_lines,
        line_rules.duplicate_lines,
        line_rules.duplicate_paragraphs,
        repeated_passages,
        few_sentences,
    )
}
