"""Knobs of the ``shards`` stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tasks.core.config import Config, later, runtime
from tasks.text.split import Split

SHARD_TOKENS = 2**24


@dataclass(frozen=True, kw_only=True)
class ShardsConfig(Config):
    """Split the documents and store their tokens."""

    split: Split = Split()
    """What is held out, by hash of the near-copy cluster."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the order of the training documents, which mixes sources within a training sample, and of the draw of
    those that are replayed."""
    shard_tokens: Annotated[int, Field(ge=1)] = SHARD_TOKENS
    """Tokens per shard file at most. No document is cut: a longer one has a shard of its own."""
    num_shards: Annotated[int, Field(ge=1)] | None = later(None, neutral=None)
    """Exactly so many shard files of the training split, as even as its documents allow, in place of ``shard_tokens``,
    which then only rules the held-out splits. With more shards than documents some hold none."""
    replay_share: Annotated[float, Field(ge=0, lt=1)] = later(0.5, neutral=0.5)
    """Share of the training text, in bytes, that is drawn from what was known, so that the model does not forget it.
    Only used with known documents; when they have less, all of them are taken."""
    fast_encoding: bool = runtime(True)
    """Encode with tiktoken's engine where it gives the same ids, which a sample of the documents proves each time."""

    def __post_init__(self) -> None:
        if self.num_shards is not None and self.shard_tokens != SHARD_TOKENS:
            raise ValueError(f"give shard_tokens or num_shards, not both (got {self.shard_tokens}, {self.num_shards})")
