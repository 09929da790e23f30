"""What can be turned when personal data is taken out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from tasks.core.config import Config, runtime

Kind = Literal["email", "cn_id", "card", "ip", "phone"]


@dataclass(frozen=True, kw_only=True)
class RedactConfig(Config):
    """Replace personal data by typed placeholders such as <EMAIL>."""

    kinds: Annotated[tuple[Kind, ...], Field(min_length=1)] = ("email", "cn_id", "card", "ip", "phone")
    """What to look for: e-mail addresses, Chinese resident IDs, payment cards, IP addresses, telephone numbers."""
    keep_local_addresses: bool = True
    """Leave loopback, private and other addresses that mean the same in every network: they name nobody, and
    technical text is about them."""
    workers: Annotated[int, Field(gt=0)] = runtime(2)
    """Most processes that share the work; a small corpus is done sooner by fewer."""
