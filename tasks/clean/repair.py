"""Unicode repair: mojibake, control characters, invisible characters, white space."""

from __future__ import annotations

import re
from collections.abc import Callable

import ftfy
from textacy.preprocessing import make_pipeline, normalize, remove

# A line in this alphabet alone (ASCII without the ampersand, Chinese with its punctuation, dashes and quotation
# marks) has nothing for ftfy to repair: no bytes read in another encoding, no control characters, no entities.
_PLAIN = re.compile(r"[\t -%'-~\u2014\u2018\u2019\u201c\u201d\u2026\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]*")

# Zero-width space and joiner of words, byte order mark, soft hyphen, and the marks and overrides of writing
# direction (with which a text can read otherwise than it is). U+200C and U+200D stay: emoji and scripts need them.
_INVISIBLE = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\u00ad\ufff9-\ufffb]")
_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f]")
_MANY_BREAKS = re.compile(r"\n{3,}")

_STEPS = {
    "bullet_points": normalize.bullet_points,
    "hyphenated_words": normalize.hyphenated_words,
    "html_tags": remove.html_tags,
    "quotation_marks": normalize.quotation_marks,
}
LATIN_ONLY = frozenset(("hyphenated_words", "quotation_marks"))
"""Steps that damage Chinese: its characters are word characters to them, its quotation marks become ASCII."""


def repair(text: str, *, unescape_html: bool = True) -> str:
    """The text as its writer meant it, in NFC.

    ftfy without the steps that would change Chinese: full-width punctuation keeps its width and quotation marks
    their form. Indentation stays, since it is part of code; space at line ends and more than one empty line do not.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # Entities in a text with tags are the markup's own; ftfy asks the same of the whole text it is given.
    settings = _SETTINGS[unescape_html and "<" not in text]
    text = "\n".join(_repaired_line(line, settings) for line in text.split("\n"))
    text = normalize.unicode(text, form="NFC")
    # Not a pattern like "[ ]+\n": on a long run of spaces it takes quadratic time.
    text = "\n".join(line.rstrip() for line in text.split("\n"))
    return _MANY_BREAKS.sub("\n\n", text).strip("\n")


def _repaired_line(line: str, settings: ftfy.TextFixerConfig) -> str:
    if _PLAIN.fullmatch(line):
        return line
    return _SPACES.sub(" ", _INVISIBLE.sub("", ftfy.fix_text(line, settings)))


def _settings(unescape_html: bool) -> ftfy.TextFixerConfig:
    return ftfy.TextFixerConfig(
        unescape_html=unescape_html, uncurl_quotes=False, fix_character_width=False, normalization="NFC", explain=False
    )


_SETTINGS = {unescape: _settings(unescape) for unescape in (False, True)}


def preprocessor(steps: tuple[str, ...], *, latin: bool) -> Callable[[str], str]:
    """The named textacy steps as one function; those for Latin script only when the text is in it."""
    pipeline: Callable[[str], str] = make_pipeline(*(_STEPS[name] for name in steps if latin or name not in LATIN_ONLY))
    return pipeline
