"""Drawing some of many by hash: an order that looks random and is the same wherever it is made."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")


class Drawn(NamedTuple, Generic[Item]):
    """What was drawn, and what was left for a later draw; both by key, in the order of the keys."""

    taken: dict[str, Item]
    left: dict[str, Item]


def shuffled(keys: Iterable[str]) -> list[str]:
    """The keys in an order that looks random and depends on nothing but the keys."""
    return sorted(keys, key=lambda key: hashlib.sha256(key.encode()).digest())


def draw(items: dict[str, Item], budget: int, size: Callable[[Item], int]) -> Drawn[Item]:
    """As many items as fit the budget, in shuffled order of their keys."""
    taken = set()
    for key in shuffled(items):
        if size(items[key]) <= budget:
            taken.add(key)
            budget -= size(items[key])
    return Drawn({key: items[key] for key in sorted(taken)}, {key: items[key] for key in sorted(items.keys() - taken)})
