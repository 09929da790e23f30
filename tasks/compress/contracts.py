"""What an exported and a quantised model must keep of the trained one; each failure is a :class:`GateError`.

Array names: ``_NT`` windows by tokens, ``_TV`` positions of one window by vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers.pytorch_utils import Conv1D

from tasks.compress.config import CompressConfig
from tasks.core.errors import DataError, GateError
from tasks.lm.onnx_generation import (
    Floats,
    Ints,
    OnnxModel,
    Sampling,
    generate,
    greedy_batch,
    left_padded,
    positions_of,
)
from tasks.lm.token_shards import TokenShards

Logits = Callable[[Ints], Floats]
"""Logits of every position of windows of one length: ``(B, T)`` to ``(B, T, V)``."""
PADDING_STEP = "the export ignores the attention mask or the positions; padded batches would be wrong"


@dataclass(frozen=True)
class Parity:
    """torch fp32, ONNX fp32 and INT8 on the same windows; the three means are nats per predicted token."""

    max_logit_diff: float
    torch_nll: float
    fp32_nll: float
    int8_nll: float
    num_tokens: int
    """Predicted tokens the means are taken over."""

    @property
    def perplexity_increase(self) -> float:
        """Relative increase of perplexity from ONNX fp32 to INT8."""
        return float(np.expm1(self.int8_nll - self.fp32_nll))


def windows_of(shards: TokenShards, count: int, length: int) -> Ints:
    """At most ``count`` windows of ``length`` tokens spread evenly over a split; shape ``(N, T)``.

    Windows do not overlap; a split that is shorter than one window gives a single shorter one.

    Raises:
        DataError: when the split has fewer than two tokens, so that nothing can be predicted.
    """
    if shards.num_tokens < 2:
        raise DataError(
            f"the {shards.split} split holds {shards.num_tokens} tokens; the contracts of compress need at least 2",
            subject=f"shards, split {shards.split}",
            next_step="give the pipeline more documents or raise the share of that split",
        )
    length = min(length, shards.num_tokens)
    count = min(count, shards.num_tokens // length)
    starts = np.linspace(0, shards.num_tokens - length, count).astype(int)
    return np.stack([shards.window(int(start), length) for start in starts])


def torch_logits(model: torch.nn.Module) -> Logits:
    """The trained model's own logits."""

    def logits(ids_BT: Ints) -> Floats:
        with torch.inference_mode():
            found: Floats = model(input_ids=torch.from_numpy(ids_BT), use_cache=False).logits.float().numpy()
        return found

    return logits


def nats(logits_TV: Floats, tokens_T: Ints) -> npt.NDArray[np.float64]:
    """Negative log-likelihood of each token but the first, in nats; shape ``(T - 1,)``."""
    scores = logits_TV[:-1].astype(np.float64)
    scores -= scores.max(axis=-1, keepdims=True)
    normaliser = np.log(np.exp(scores).sum(axis=-1))
    found: npt.NDArray[np.float64] = normaliser - scores[np.arange(len(scores)), tokens_T[1:]]
    return found


def parity(windows_NT: Ints, torch_model: Logits, fp32: Logits, int8: Logits) -> Parity:
    """Compare the three on every window, one window at a time: dynamic scales span the batch, and one is served."""
    diff, sums = 0.0, np.zeros(3)
    for window_T in windows_NT:
        found = [model(window_T[None])[0] for model in (torch_model, fp32, int8)]
        diff = max(diff, float(np.abs(found[0] - found[1]).max()))
        sums += [nats(logits, window_T).sum() for logits in found]
    count = windows_NT.size - len(windows_NT)
    torch_nll, fp32_nll, int8_nll = (sums / count).tolist()
    return Parity(diff, torch_nll, fp32_nll, int8_nll, count)


def check_parity(found: Parity, config: CompressConfig) -> None:
    """The ONNX fp32 logits are torch's, and INT8 loses no more perplexity than allowed.

    Raises:
        GateError: naming the contract and both numbers. A number that is not finite breaks the contract too.
    """
    if not found.max_logit_diff <= config.max_logit_diff:
        raise GateError(
            f"ONNX fp32 logits differ from torch by {found.max_logit_diff:.3g}, allowed {config.max_logit_diff:.3g}",
            subject="fp32/model.onnx",
            next_step="the export is wrong for this architecture; compress.max_logit_diff only if it is known why",
        )
    if not found.perplexity_increase <= config.max_perplexity_increase:
        raise GateError(
            f"INT8 raises validation perplexity by {found.perplexity_increase:.2%},"
            f" allowed {config.max_perplexity_increase:.2%}",
            subject="int8/model.onnx",
            next_step="try compress.per_channel=true, compress.weights=uint8, or accept it in"
            " compress.max_perplexity_increase",
        )


def num_linear_layers(model: torch.nn.Module) -> int:
    """Layers that multiply by a weight, counted in the trained model: what quantisation is expected to find."""
    return sum(isinstance(module, torch.nn.Linear | Conv1D) for module in model.modules())


def check_quantized(found: int, expected: int, config: CompressConfig) -> None:
    """Enough of the linear layers became integer multiplications.

    Raises:
        GateError: also when the model has no linear layer at all.
    """
    if expected == 0 or found < config.min_quantized_share * expected:
        raise GateError(
            f"{found} of {expected} linear layers are quantised, needed {config.min_quantized_share:.0%}",
            subject="int8/model.onnx",
            next_step="the quantiser does not know these layers; compare the node types of fp32/model.onnx",
        )


def prompts_of(windows_NT: Ints, count: int, room: int) -> list[list[int]]:
    """``count`` prompts of rising length, from one token to ``room``, cut from the windows."""
    longest = max(1, min(room, windows_NT.shape[1]))
    lengths = np.linspace(1, longest, count).astype(int)
    return [windows_NT[place % len(windows_NT), :length].tolist() for place, length in enumerate(lengths)]


def padded_logit_diff(model: OnnxModel, prompts: Sequence[Sequence[int]]) -> float:
    """Largest absolute difference between the logits after each prompt in one left-padded batch and alone."""
    ids, mask = left_padded(prompts, min(model.eos_ids))
    batched_BTV, _ = model.step(ids, mask, positions_of(mask), model.empty_past(len(prompts)))
    alone_BV = [model.logits(np.array([prompt], np.int64))[0, -1] for prompt in prompts]
    return max(float(np.abs(row_TV[-1] - alone_V).max()) for row_TV, alone_V in zip(batched_BTV, alone_BV, strict=True))


def check_padding(model: OnnxModel, prompts: Sequence[Sequence[int]], config: CompressConfig) -> tuple[float, int]:
    """A left-padded batch gives what each prompt gives alone: the same logits after it, the same greedy continuation.

    The logits are the sharper half: a model that knows its text by heart continues it whatever stands before. A batch
    sums in another order than a solo run, so two tokens whose logits differ by less than the parity contract allows
    may change places in a continuation; that is a tie, not a fault of padding.

    Returns:
        The largest difference of a logit, and the number of continuations that parted at a tie.

    Raises:
        GateError: when logits differ by more than ``max_logit_diff``, or a continuation by more than a tie.
    """
    if not (diff := padded_logit_diff(model, prompts)) <= config.max_logit_diff:
        raise GateError(
            f"logits after a prompt differ by {diff:.3g} between a padded batch and the prompt alone,"
            f" allowed {config.max_logit_diff:.3g}",
            subject="fp32/model.onnx",
            next_step=PADDING_STEP,
        )
    sampling = Sampling(max_tokens=config.continuation_tokens)
    ties = 0
    for place, (prompt, batched) in enumerate(
        zip(prompts, greedy_batch(model, prompts, config.continuation_tokens), strict=True)
    ):
        alone = list(generate(model, prompt, sampling))
        if alone == batched:
            continue
        if (gap := gap_where_they_part(model, prompt, alone, batched)) > config.max_logit_diff:
            raise GateError(
                f"prompt {place} of {len(prompt)} tokens continues differently in a padded batch (gap {gap:.3g}):"
                f" alone {alone[:8]}, batched {batched[:8]}",
                subject="fp32/model.onnx",
                next_step=PADDING_STEP,
            )
        ties += 1
    return diff, ties


def gap_where_they_part(model: OnnxModel, prompt: Sequence[int], one: list[int], other: list[int]) -> float:
    """Difference of the logits of the two tokens chosen where two continuations part; an end counts as its token."""
    end = min(model.eos_ids)
    pairs = zip([*one, end], [*other, end], strict=False)
    same, (first, second) = next((place, pair) for place, pair in enumerate(pairs) if pair[0] != pair[1])
    logits_V: Any = model.logits(np.array([[*prompt, *one[:same]]], np.int64))[0, -1]
    return float(abs(logits_V[first] - logits_V[second]))
