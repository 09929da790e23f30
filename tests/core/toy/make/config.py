"""Knobs of a stage that makes documents."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tasks.core.config import Config, dial, runtime


@dataclass(frozen=True, kw_only=True)
class MakeConfig(Config):
    """Make documents out of nothing."""

    num_documents: Annotated[int, Field(ge=0, le=1000)] = dial(3)
    """How many documents."""
    prefix: str = "text"
    """What each starts with."""
    world: str = ""
    """A file whose bytes the stage looks at; its content, not its path, is identity."""
    workers: int = runtime(1)
    """How many processes."""
    fail: str = runtime("")
    """What goes wrong: ``data``, ``disk`` or ``bug``."""
    pause_s: float = runtime(0.0)
    """How long the stage takes between its two writes."""
    luck: str = runtime("")
    """Ends up in what is made though it is no part of the identity, as the order of threads may in a careless stage."""
