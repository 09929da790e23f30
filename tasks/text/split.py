"""Which side of the train / validation / test split a document is on.

The split is a function of the document's near-copy cluster alone. A document never moves when others come or
go, and a text and its near-copies are never on two sides.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tasks.core.config import Config, later

TRAIN, VALIDATION, TEST = SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Split(Config):
    """How many of the documents' clusters are held out."""

    validation: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """Share of the clusters held out to choose between models."""
    test: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """Share of the clusters held out to be looked at once, at the end."""
    seed: Annotated[int, Field(ge=0, lt=2**64)] = later(0, neutral=0)
    """Another seed holds out other clusters; draw anew when test has been looked at too often."""

    def __post_init__(self) -> None:
        if self.validation + self.test >= 1:
            raise ValueError(f"validation + test must leave something to train on (got {self.validation + self.test})")

    def share(self, split: str) -> float:
        """Share of the clusters that a split asks for."""
        return {VALIDATION: self.validation, TEST: self.test}.get(split, 1 - self.validation - self.test)


def split_of(cluster: str, split: Split) -> str:
    """``train``, ``validation`` or ``test``: where all documents of a cluster go.

    The cluster's 64-bit BLAKE2b digest, salted with the seed, is taken as a fraction of 1; test takes the lowest part
    and validation the part above it, so changing ``validation`` never moves a document in or out of test.
    """
    salt = split.seed.to_bytes(8, "big")
    digest = hashlib.blake2b(cluster.encode("utf-8"), digest_size=8, person=b"split", salt=salt).digest()
    fraction = int.from_bytes(digest, "big") / 2**64
    if fraction < split.test:
        return TEST
    return VALIDATION if fraction < split.test + split.validation else TRAIN
