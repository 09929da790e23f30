"""What makes an aligned pair worth keeping."""

from __future__ import annotations

import re
from collections.abc import Iterable

from formats import Row
from page_text import HAN


def clean_pairs(pairs: Iterable[Row]) -> list[Row]:
    """The pairs without copies, untranslated ones and those of under three English words."""
    taken: set[tuple[str, str]] = set()
    kept = []
    for pair in pairs:
        both = pair["en"], pair["zh"]
        words = re.findall(r"[A-Za-z]{2,}", pair["en"])
        if both in taken or len(words) < 3 or not re.search(HAN, pair["zh"]) or pair["en"] == pair["zh"]:
            continue
        taken.add(both)
        kept.append(pair)
    return kept
