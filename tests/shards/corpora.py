"""Tiny clustered documents, and a tokenizer to encode them with, for the tests of tokenizer and shards."""

import random

import pyarrow as pa
from upath import UPath

from tasks.core import documents as docs
from tasks.lm.encoding import SPECIAL_TOKENS
from tasks.tokenizer.bpe import train_bpe
from tasks.tokenizer.stage import write as write_tokenizer

SCHEMA = docs.SCHEMA.append(pa.field("language", pa.string())).append(pa.field("cluster", pa.string()))
TURNS = "the river turns a wheel and the wheel grinds corn while water runs on to sea 12 345"
ENGLISH = TURNS.split()
CHINESE = list("河水推动水车磨坊里的石磨转动麦子变成面粉")


def row(position: int, text: str, *, source: str = "test", language: str = "en", cluster: str | None = None) -> dict:
    one = docs.document_id(source, str(position), docs.text_digest(text))
    return {
        "id": one,
        "text": text,
        "text_digest": docs.text_digest(text),
        "source": source,
        "meta": "{}",
        "language": language,
        "cluster": cluster or one,
    }


def mixed_rows(num_rows: int, seed: int = 0) -> list[dict]:
    """English and Chinese documents of two sources, each a cluster of its own."""
    draw = random.Random(seed)
    rows = []
    for at in range(num_rows):
        if at % 2:
            text = "".join(draw.choices(CHINESE, k=draw.randint(5, 60)))
            rows.append(row(at, text, source="poems", language="zh"))
        else:
            rows.append(row(at, " ".join(draw.choices(ENGLISH, k=draw.randint(5, 60))), source="prose"))
    return rows


def write_rows(path: UPath, rows: list[dict]) -> UPath:
    docs.write_documents(path, docs.table_of(rows, SCHEMA), 3)
    return path


def bytes_tokenizer(path: UPath) -> UPath:
    """A tokenizer artifact whose tokens are the bytes and little more."""
    write_tokenizer(train_bpe(["the river 河"] * 3, 256 + len(SPECIAL_TOKENS) + 8, 2), path)
    return path
