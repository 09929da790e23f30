"""The text a tokenizer is trained on: bounded, as much of each language, of training documents only."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from upath import UPath

from tasks.core import documents as docs
from tasks.core.errors import DataError
from tasks.text.split import TRAIN, split_of
from tasks.tokenizer.config import TokenizerConfig


@dataclass(frozen=True)
class Sample:
    """How many characters to take of the start of each document."""

    chars_of: dict[str, int]
    """By document id."""
    num_documents: int
    """Training documents there are, taken or not."""


def choose(config: TokenizerConfig, documents: UPath) -> Sample:
    """Choose documents of each language in an order drawn by seed, up to ``max_chars``; the last one is cut.

    Raises:
        DataError: when there are no training documents.
    """
    drawn: dict[str, list[tuple[bytes, str, int]]] = defaultdict(list)
    for batch in docs.iter_batches(documents, ["id", "text", "language", "cluster"]):
        for row in batch.to_pylist():
            if split_of(row["cluster"], config.split) == TRAIN:
                drawn[row["language"]].append((_draw(config.seed, row["id"]), row["id"], len(row["text"])))
    if not drawn:
        raise DataError(
            "there are no training documents to train a tokenizer on",
            subject=str(documents),
            next_step="lower split.validation and split.test, or give more documents",
        )
    chars_of = {}
    for language in sorted(drawn):
        room = config.max_chars
        for _, document, num_chars in sorted(drawn[language]):
            if room <= 0:
                break
            chars_of[document] = min(num_chars, room)
            room -= num_chars
    return Sample(chars_of, sum(map(len, drawn.values())))


def _draw(seed: int, document: str) -> bytes:
    return hashlib.blake2b(f"{seed}\x1f{document}".encode(), digest_size=8, person=b"tokenizer").digest()


def batches(documents: UPath, sample: Sample) -> Iterator[list[tuple[str, str]]]:
    """Language and text of each chosen document, cut to its share, in batches in the order of the shards."""
    for batch in docs.iter_batches(documents, ["id", "text", "language"]):
        chosen = [row for row in batch.to_pylist() if row["id"] in sample.chars_of]
        yield [(row["language"], row["text"][: sample.chars_of[row["id"]]]) for row in chosen]
