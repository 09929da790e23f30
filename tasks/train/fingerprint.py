"""What decides a training besides its knobs and inputs: the number format the machine is fast in."""

from __future__ import annotations

from typing import Any

from tasks.train.config import TrainConfig
from tasks.training.device import Precision, faster_precision


def fingerprint(config: TrainConfig) -> dict[str, Any]:
    """The precision that ``auto`` means on this machine: bf16 and fp32 do not make the same model."""
    return {"precision": precision_of(config)}


def precision_of(config: TrainConfig) -> Precision:
    """The precision asked for, or the faster one here."""
    return faster_precision() if config.precision == "auto" else config.precision
