"""One document: repair, language, and the first rule that takes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tasks.clean import chinese, english
from tasks.clean.config import CleanConfig
from tasks.clean.language import PAIR, UNKNOWN, language_of
from tasks.clean.page import Page
from tasks.clean.repair import preprocessor, repair
from tasks.text.words import count_cjk

SIDES = ("en", "zh")
"""Fields of meta that hold a translation pair."""


@dataclass(frozen=True)
class Cleaned:
    """One document after cleaning."""

    text: str
    meta: str
    language: str
    reason: str
    """Why it is dropped; empty when it is kept."""


class Cleaner:
    """Cleans single documents."""

    def __init__(self, config: CleanConfig) -> None:
        self._config = config
        self._latin_steps = preprocessor(config.preprocessing, latin=True)
        self._other_steps = preprocessor(config.preprocessing, latin=False)

    def clean(self, text: str, meta: str, source: str) -> Cleaned:
        """Repair a document, tell its language, and find the first rule that takes it."""
        if len(text) > self._config.max_chars:
            return Cleaned(text, meta, UNKNOWN, "too_long")
        text = repair(text, unescape_html=self._config.unescape_html)
        sides = _sides(meta)
        if sides is None:
            code, score = language_of(text)
        else:
            code, score = PAIR, 1.0
        steps = self._latin_steps if code == "en" else self._other_steps
        text = steps(text)
        if sides is not None:
            sides, meta = self._repaired_sides(meta, steps)
        return Cleaned(text, meta, code, self._reason(text, sides, source, code, score))

    def _repaired_sides(self, meta: str, steps: Callable[[str], str]) -> tuple[dict[str, str], str]:
        """Both sides of a pair cleaned as the text is: evaluation compares them with what was trained on."""
        values = json.loads(meta)
        for side in SIDES:
            values[side] = steps(repair(values[side], unescape_html=self._config.unescape_html))
        return values, json.dumps(values, ensure_ascii=False, sort_keys=True)

    def _reason(self, text: str, sides: dict[str, str] | None, source: str, code: str, score: float) -> str:
        if not text.strip():
            return "empty"
        if sides is not None and not self._is_translated(sides):
            return "not_translated"
        if not set(code.split("-")) <= set(self._config.languages):
            return "language"
        is_record = sides is not None or source in self._config.record_sources
        if not is_record and score < self._config.min_language_score:
            return "language_unsure"
        return self._first_rule(text, "" if is_record else code)

    def _is_translated(self, sides: dict[str, str]) -> bool:
        """Whether the two sides say something in their own script; many a catalogue leaves a text as it was."""
        return (
            sides["en"] != sides["zh"]
            and any(ch.isascii() and ch.isalpha() for ch in sides["en"])
            and count_cjk(sides["zh"]) > 0
        )

    def _first_rule(self, text: str, code: str) -> str:
        """Name of the first rule that takes the text; only repetition counts without a language's rules."""
        page = Page(text, with_code=self._config.judge_code)
        if code == "en":
            limits = self._config.english
            return next((name for name in limits.rules if english.RULES[name](page, limits)), "")
        if code == "zh":
            zh_limits = self._config.chinese
            return next((name for name in zh_limits.rules if chinese.RULES[name](page, zh_limits)), "")
        return "repeated_passages" if chinese.repeated_passages(page, self._config.records) else ""


def _sides(meta: str) -> dict[str, Any] | None:
    """The meta of a translation pair; None for any other document."""
    if '"en"' not in meta or '"zh"' not in meta:
        return None
    values = json.loads(meta)
    return values if all(isinstance(values.get(side), str) for side in SIDES) else None
