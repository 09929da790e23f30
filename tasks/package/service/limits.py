"""What a service takes, as the package it came in says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The knobs of packaging that the running service needs; written beside the model as ``service.json``."""

    model_name: str
    variant: str
    max_tokens: int
    max_prompts: int
    max_body_bytes: int
    max_concurrency: int
    timeout_s: float
    threads: int
    workers: int

    @classmethod
    def read(cls, folder: Path) -> Limits:
        """Limits of the package whose model lies in ``folder``."""
        return cls(**json.loads((folder / "service.json").read_text("utf-8")))
