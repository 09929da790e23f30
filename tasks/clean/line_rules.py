"""Rules about lines that hold for every language. A rule answers whether it takes the document."""

from __future__ import annotations

from tasks.clean.config import LineLimits
from tasks.clean.page import Page
from tasks.clean.repetition import duplicate_shares

BULLETS = ("•", "‣", "▶", "◀", "◦", "■", "□", "▪", "▫", "–", "●", "-", "*", "·")
ELLIPSES = ("...", "…")


def bullet_lines(page: Page, limits: LineLimits) -> bool:
    """More than 90% of lines begin with a bullet (Gopher: Rae et al., 2021, A1.1)."""
    return _share(sum(line.startswith(BULLETS) for line in page.lines), page) > limits.max_bullet_lines


def ellipsis_lines(page: Page, limits: LineLimits) -> bool:
    """More than 30% of lines end in an ellipsis (Gopher: Rae et al., 2021, A1.1)."""
    return _share(sum(line.endswith(ELLIPSES) for line in page.lines), page) > limits.max_ellipsis_lines


def duplicate_lines(page: Page, limits: LineLimits) -> bool:
    """Copies are more than 30% of the lines or hold more than 20% of the characters (Gopher, table A1)."""
    return _is_duplicated(page.lines, limits)


def duplicate_paragraphs(page: Page, limits: LineLimits) -> bool:
    """Copies are more than 30% of the paragraphs or hold more than 20% of the characters (Gopher, table A1)."""
    return _is_duplicated(page.paragraphs, limits)


def ends_too_few_lines(page: Page, limits: LineLimits, ends: tuple[str, ...]) -> bool:
    """At most 12% of lines end in punctuation (FineWeb: Penedo et al., 2024, 3.6)."""
    return _share(sum(line.endswith(ends) for line in page.lines), page) <= limits.min_ended_lines


def _is_duplicated(pieces: list[str], limits: LineLimits) -> bool:
    share, chars = duplicate_shares(pieces)
    return share > limits.max_duplicate_lines or chars > limits.max_duplicate_chars


def _share(count: int, page: Page) -> float:
    return count / max(len(page.lines), 1)
