"""Tiny corpora for the tests of dedup."""

import json
import random

from upath import UPath

from tasks.core import documents as docs

VOCABULARY = [f"word{number}" for number in range(2000)]


def ids_of(texts: list[str], first: int = 0) -> list[str]:
    """The id that :func:`write` gives each text."""
    return [docs.document_id("test", str(at), docs.text_digest(text)) for at, text in enumerate(texts, first)]


def write(path: UPath, texts: list[str], metas: list[dict] | None = None, num_shards: int = 3, first: int = 0) -> UPath:
    """An artifact of documents; the natural key is the position, counted from ``first``."""
    rows = [
        {
            "id": one,
            "text": text,
            "text_digest": docs.text_digest(text),
            "source": "test",
            "meta": json.dumps(metas[at] if metas else {}, ensure_ascii=False),
        }
        for at, (one, text) in enumerate(zip(ids_of(texts, first), texts, strict=True))
    ]
    docs.write_documents(path, docs.table_of(rows), num_shards)
    return path


def planted(num_texts: int, seed: int) -> list[str]:
    """Texts of which about half are another one with some words replaced, from none to every twelfth."""
    draw = random.Random(seed)
    texts: list[list[str]] = []
    for number in range(num_texts):
        if number % 2 and number > 10:
            words = list(draw.choice(texts))
            for _ in range(draw.randint(0, max(1, len(words) // 12))):
                words[draw.randrange(len(words))] = draw.choice(VOCABULARY)
        else:
            words = draw.choices(VOCABULARY, k=draw.randint(20, 120))
        texts.append(words)
    return [" ".join(words) for words in texts]


def numbered_words(first: int, last: int) -> str:
    """A text of the words ``first`` to ``last - 1`` of the vocabulary."""
    return " ".join(VOCABULARY[first:last])
