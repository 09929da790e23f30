"""Knobs of promoting: what a challenger must show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tasks.core.config import Config, pinned

Ratio = Annotated[float, Field(gt=0)]


@dataclass(frozen=True, kw_only=True)
class PromoteConfig(Config):
    """Make the packaged model the champion if it is newer and not worse; reject it otherwise."""

    max_vs_champion: Ratio = 1.0
    """Most bits per byte, over the champion's on the same held-out text, that the upper end of the 95% interval may
    reach. At 1 a model is kept when chance alone would hardly make it look this good."""
    max_language_vs_champion: Ratio = 1.02
    """Most bits per byte, over the champion's, in any language: a gain in one does not pay for a loss in another."""
    partition: str = pinned("")
    """The newest partition the challenger has learned from; a champion is never replaced by an older one."""
    champion: str = pinned("")
    """Version of the champion that the challenger was compared with; it must still be the champion."""
