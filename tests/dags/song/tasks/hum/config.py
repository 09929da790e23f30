"""What can be turned when humming."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tasks.core.config import Config, dial, runtime


@dataclass(frozen=True, kw_only=True)
class HumConfig(Config):
    """Hum a tune."""

    times: Annotated[int, Field(gt=0, le=100)] = dial(3)
    """How many times to hum."""
    key: str | None = dial(None)
    """In which key; in none when left empty."""
    word: str = "hum"
    """What to hum."""
    voices: int = runtime(1)
    """How many hum at once."""
