"""Knobs of the ``shards`` stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tasks.core.config import Config, later
from tasks.text.split import Split


@dataclass(frozen=True, kw_only=True)
class ShardsConfig(Config):
    """Split the documents and store their tokens."""

    split: Split = Split()
    """What is held out, by hash of the near-copy cluster."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the order of the training documents, which mixes sources within a training sample, and of the draw of
    those that are replayed."""
    shard_tokens: Annotated[int, Field(ge=1)] = 2**24
    """Tokens per shard file at most."""
    replay_share: Annotated[float, Field(ge=0, lt=1)] = later(0.5, neutral=0.5)
    """Share of the training text, in bytes, that is drawn from what was known, so that the model does not forget it.
    Only used with known documents; when they have less, all of them are taken."""
