"""Knobs of compression: how the weights are stored, and the contracts the result must keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from tasks.core.config import Config, runtime


@dataclass(frozen=True, kw_only=True)
class CompressConfig(Config):
    """Export to ONNX with a key-value cache, quantise to INT8, and prove that both still are the model."""

    weights: Literal["uint8", "int8"] = "uint8"
    """Type of the quantised weights. Activations are uint8; on processors without VNNI, int8 weights take an
    instruction whose 16-bit sums saturate, while uint8 weights are exact on all. So that one model does not depend on
    the machine that made it, this is a knob and never chosen by looking at the processor."""
    per_channel: bool = True
    """One scale per output column of a weight instead of one per matrix."""
    min_quantized_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Contract: share of the model's linear layers that must be integer multiplications in the INT8 graph. A quantiser
    that finds nothing it knows says nothing, and the file is still called INT8."""
    max_logit_diff: Annotated[float, Field(gt=0)] = 1e-3
    """Contract: largest absolute difference of a logit between torch and ONNX, both fp32. Correct exports show 1e-5
    and less; a wrong mask or position is off by whole units."""
    max_perplexity_increase: Annotated[float, Field(gt=0)] = 0.02
    """Contract: relative increase of validation perplexity from ONNX fp32 to INT8, both on the same windows. Weight and
    activation rounding at 8 bits costs well below 1% on a trained model."""
    num_windows: Annotated[int, Field(ge=1)] = 32
    """Windows of the validation split, spread evenly over it, that parity and perplexity are computed on."""
    window_tokens: Annotated[int, Field(ge=2)] = 256
    """Length of a window in tokens; cut to the model's context and to what the split holds."""
    num_prompts: Annotated[int, Field(ge=2)] = 4
    """Contract: prompts of different lengths that are continued in one padded batch and alone, with equal tokens."""
    continuation_tokens: Annotated[int, Field(ge=1)] = 16
    """Tokens by which each of those prompts is continued."""
    speed_tokens: Annotated[int, Field(ge=1)] = runtime(48)
    """Tokens decoded per prompt when speed is measured."""
    speed_rounds: Annotated[int, Field(ge=1)] = runtime(5)
    """Rounds in which torch, ONNX fp32 and INT8 take turns; the median counts."""
