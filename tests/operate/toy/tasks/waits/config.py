"""Knobs of the waits stage: none."""

from dataclasses import dataclass

from tasks.core.config import Config


@dataclass(frozen=True, kw_only=True)
class WaitsConfig(Config):
    """Wait to be stopped."""
