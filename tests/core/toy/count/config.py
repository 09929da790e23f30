"""Knobs of a stage that counts."""

from dataclasses import dataclass

from tasks.core.config import Config


@dataclass(frozen=True, kw_only=True)
class CountConfig(Config):
    """Count documents."""

    unit: str = "documents"
    """What the number is called."""
