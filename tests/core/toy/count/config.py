"""Knobs of a stage that counts."""

from dataclasses import dataclass

from tasks.core.config import Config, runtime


@dataclass(frozen=True, kw_only=True)
class CountConfig(Config):
    """Count documents."""

    unit: str = "documents"
    """What the number is called."""
    pause_s: float = runtime(0.0)
    """How long the stage waits before it reads."""
