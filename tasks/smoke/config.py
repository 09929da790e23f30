"""Knobs of the smoke check: what is asked, and how long the service may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tasks.core.config import Config, runtime

Prompt = Annotated[str, Field(min_length=1, max_length=2000)]


@dataclass(frozen=True, kw_only=True)
class SmokeConfig(Config):
    """Start the packaged service as a user would, ask it, and compare with the model's own answers."""

    prompts: Annotated[tuple[Prompt, ...], Field(min_length=1)] = (
        "The quick way to ",
        "春眠不覺曉，",
        "English: Open the file.\nChinese:",
    )
    """Texts to continue, each plain and streamed."""
    max_tokens: Annotated[int, Field(ge=1, le=256)] = 24
    """Tokens asked for per prompt."""
    start_timeout_s: Annotated[float, Field(gt=0)] = runtime(120.0)
    """Longest wait until the service says it is ready."""
    request_timeout_s: Annotated[float, Field(gt=0)] = runtime(60.0)
    """Longest wait for one answer."""
    latency_requests: Annotated[int, Field(ge=1)] = runtime(10)
    """Requests that the reported latency is the median of."""
