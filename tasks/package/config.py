"""Knobs of packaging: what the service is called and what it will take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from tasks.core.config import Config


@dataclass(frozen=True, kw_only=True)
class PackageConfig(Config):
    """Build a BentoML service around the compressed model and register it as the challenger."""

    model_name: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$")] = "headrace-lm"
    """Name of the bento, of the model in MLflow's registry, and what requests put into ``model``."""
    variant: Literal["int8", "fp32"] = "int8"
    """Which form of the compressed model is served."""
    max_tokens: Annotated[int, Field(ge=1)] = 256
    """Most tokens a request may ask for; prompt and completion together never pass the model's context."""
    max_prompts: Annotated[int, Field(ge=1)] = 16
    """Most prompts in one request."""
    max_body_bytes: Annotated[int, Field(ge=1024)] = 262_144
    """Largest request body; a larger one is answered with 413 before it is read."""
    max_concurrency: Annotated[int, Field(ge=1)] = 32
    """Requests in work or waiting in one worker; the next one is answered with 429."""
    timeout_s: Annotated[float, Field(gt=0)] = 60.0
    """Longest a request may wait and generate before it is answered with 504."""
    threads: Annotated[int, Field(ge=1)] = 1
    """onnxruntime threads of one worker. One gives the same tokens for the same prompt; more workers serve more."""
    workers: Annotated[int, Field(ge=1)] = 1
    """Worker processes of the service, each with its own copy of the model."""
