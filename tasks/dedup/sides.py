"""Pair documents that share a side: the same English sentence or the same Chinese one.

Two translations of one sentence have few shingles in common, yet a model that trained on one is not tested fairly
on the other. Such documents belong to one cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np

from tasks.dedup.candidates import Pairs
from tasks.text.words import words

SIDES = ("en", "zh")


def side_keys(meta: str) -> list[str]:
    """What identifies each side of a pair document: the language and its words, lower-cased, without punctuation.

    Empty for a document that is no pair. A side without a word ("…", "%") identifies nothing.
    """
    if not all(f'"{side}"' in meta for side in SIDES):
        return []  # spares most documents the JSON parser
    found = json.loads(meta)
    if not all(isinstance(found.get(side), str) for side in SIDES):
        return []
    return [f"{side}:{' '.join(one)}" for side in SIDES if (one := words(found[side]))]


def equal_sides(metas: Iterable[str]) -> Pairs:
    """Edges that join each document to the first one with an equal side; documents are numbered as they come."""
    first: dict[str, int] = {}
    edges = [
        (first.setdefault(key, document), document) for document, meta in enumerate(metas) for key in side_keys(meta)
    ]
    return np.array([edge for edge in edges if edge[0] != edge[1]], np.int64).reshape(-1, 2)
