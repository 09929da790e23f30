"""A text cut into the pieces that rules count, each cut at most once."""

from __future__ import annotations

from functools import cached_property

from tasks.clean.repetition import WordNgrams

FENCES = ("```", "~~~")


class Page:
    """One document as a rule sees it: its prose, without the code between Markdown fences.

    The papers' limits were found on web pages, where code is noise; in documentation it is content, and a listing
    has the short, repeated, unpunctuated lines that the rules are after.
    """

    def __init__(self, text: str, *, with_code: bool = False) -> None:
        self.text = text if with_code else prose_of(text)

    @cached_property
    def lines(self) -> list[str]:
        """Lines that are not empty, without the space around them."""
        return [line.strip() for line in self.text.split("\n") if line.strip()]

    @cached_property
    def paragraphs(self) -> list[str]:
        """Pieces between empty lines, without the space around them."""
        return [piece.strip() for piece in self.text.split("\n\n") if piece.strip()]

    @cached_property
    def words(self) -> list[str]:
        """Pieces between white space: what Gopher and FineWeb call words."""
        return self.text.split()

    @cached_property
    def ngrams(self) -> WordNgrams:
        """The n-grams of the words."""
        return WordNgrams(self.words)


def prose_of(text: str) -> str:
    """The text without fenced code; a fence that is never closed runs to the end (CommonMark 0.31, section 4.5)."""
    if not any(fence in text for fence in FENCES):
        return text
    kept, fence = [], ""
    for line in text.split("\n"):
        mark = line.lstrip()[:3]
        if fence:
            fence = "" if mark == fence else fence
        elif mark in FENCES:
            fence = mark
        else:
            kept.append(line)
    return "\n".join(kept)
