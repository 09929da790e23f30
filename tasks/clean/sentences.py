"""Sentences, by spaCy's rules for each language."""

from __future__ import annotations

from functools import cache

import spacy
from spacy.language import Language

SAMPLES_CHARS = (500, 2000, 8000)
"""Most prose ends its sentences early; what ended too few in the longest sample is not prose. spaCy itself refuses
texts of more than a million characters."""
CHINESE_ENDS = ["。", "！", "？", "…", "；", "!", "?", "｡"]


def has_sentences(text: str, count: int, language: str) -> bool:
    """Whether a text has so many sentences with a letter in them. ``language`` is ``en`` or ``zh``.

    A blank pipeline: the language's tokenizer, which knows that "e.g." and "3.14" end no sentence, and a rule that
    ends one at punctuation. A parser would cost thirty times as much and needs a model.
    """
    longest = next((size for size in SAMPLES_CHARS if size >= len(text)), SAMPLES_CHARS[-1])
    samples = [size for size in SAMPLES_CHARS if size <= longest]
    return any(_num_sentences(text[:size], language) >= count for size in samples)


def _num_sentences(text: str, language: str) -> int:
    return sum(any(token.is_alpha for token in sentence) for sentence in _pipeline(language)(text).sents)


@cache
def _pipeline(language: str) -> Language:
    pipeline = spacy.blank(language)
    pipeline.add_pipe("sentencizer", config={"punct_chars": CHINESE_ENDS} if language == "zh" else {})
    return pipeline
