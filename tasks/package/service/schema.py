"""Requests and answers of ``/v1/completions``, in the shape of OpenAI's API.

Fields of OpenAI's API that this service does not offer are known by name and take only the value that changes
nothing, so that a client which always sends them works, and one that relies on them is told.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

MAX_STOPS = 4
"""As many stop strings as OpenAI's API takes."""

Stop = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class StreamOptions(BaseModel):
    """Extras of a streamed answer."""

    model_config = ConfigDict(extra="forbid", strict=True)

    include_usage: bool = False
    """Send a last event with the token counts."""


class CompletionRequest(BaseModel):
    """What a caller may ask. A field that is null counts as left out."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    prompt: str | Annotated[list[str], Field(min_length=1)]
    model: str = ""
    max_tokens: Annotated[int, Field(ge=1)] = 16
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=MAX_STOPS)] = Field(default_factory=list)
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    user: str = ""

    n: Literal[1] = 1
    best_of: Literal[1] = 1
    echo: Literal[False] = False
    logprobs: None = None
    suffix: None = None
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] = Field(default_factory=dict)
    presence_penalty: Annotated[float, Field(ge=0, le=0)] = 0.0
    frequency_penalty: Annotated[float, Field(ge=0, le=0)] = 0.0

    @model_validator(mode="before")
    @classmethod
    def without_nulls(cls, values: Any) -> Any:
        """Drop what is null, and refuse text that is no Unicode: JSON can write half of a surrogate pair."""
        if not isinstance(values, dict):
            return values
        try:
            json.dumps(values, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("the body holds half of a surrogate pair, which is no text") from None
        return {name: value for name, value in values.items() if value is not None}

    @property
    def prompts(self) -> list[str]:
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop


def choice(index: int, text: str, finish_reason: str | None) -> dict[str, Any]:
    """One choice of an answer, or a piece of one when ``finish_reason`` is None."""
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish_reason}


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    """Token counts of one request."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }
