"""Knobs of the ``tokenizer`` stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tasks.core.config import Config, dial
from tasks.text.split import Split


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(Config):
    """Train a byte-level BPE tokenizer on the training documents."""

    vocab_size: Annotated[int, Field(ge=260, le=1_000_000)] = dial(4096)
    """Tokens at most; fewer when the text does not support them. 4 are special and 256 are the bytes."""
    min_frequency: Annotated[int, Field(ge=1)] = 2
    """How often a pair must occur to become a token."""
    max_chars: Annotated[int, Field(ge=1)] = 8_000_000
    """Characters of each language to train on, so that no language crowds out another. The time grows with them."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the order in which documents are taken until ``max_chars``."""
    split: Split = Split()
    """What is held out. The tokenizer never sees it."""
