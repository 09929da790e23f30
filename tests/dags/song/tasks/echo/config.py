"""What can be turned when answering."""

from dataclasses import dataclass

from tasks.core.config import Config


@dataclass(frozen=True, kw_only=True)
class EchoConfig(Config):
    """Answer a tune."""

    after: str = "…"
    """What comes before the answer."""
