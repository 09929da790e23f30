"""A check has no knobs."""

from dataclasses import dataclass

from tasks.core.config import Config


@dataclass(frozen=True, kw_only=True)
class CheckConfig(Config):
    """Check the count."""
