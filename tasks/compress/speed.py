"""Decoding speed of torch and both ONNX forms: same prompts, one thread each, taking turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch

from tasks.lm.onnx_generation import OnnxModel, Sampling, generate

Decode = Callable[[Sequence[int], int], None]
"""Reads a prompt and decodes exactly so many tokens after it, greedily, with a key-value cache."""


def tokens_per_second(
    contestants: Mapping[str, Decode], prompts: Sequence[Sequence[int]], *, num_tokens: int, rounds: int
) -> dict[str, float]:
    """Median over the rounds of decoded tokens per second of wall time, reading the prompts included.

    Contestants take turns within a round, so that a busy machine slows all of them; the first round warms up.
    """
    speeds: dict[str, list[float]] = {name: [] for name in contestants}
    for attempt in range(rounds + 1):
        for name, decode in contestants.items():
            started = time.perf_counter()
            for prompt in prompts:
                decode(prompt, num_tokens)
            if attempt > 0:
                speeds[name].append(num_tokens * len(prompts) / (time.perf_counter() - started))
    return {name: statistics.median(found) for name, found in speeds.items()}


def onnx_decoder(model: OnnxModel) -> Decode:
    """Decoding by an ONNX form; end tokens are ignored, so that all contestants do the same work."""

    def decode(prompt: Sequence[int], num_tokens: int) -> None:
        for _ in generate(model, prompt, Sampling(max_tokens=num_tokens, ignore_end=True)):
            pass

    return decode


def torch_decoder(model: torch.nn.Module) -> Decode:
    """Decoding by the trained model in eager fp32."""

    def decode(prompt: Sequence[int], num_tokens: int) -> None:
        ids, past = torch.tensor([list(prompt)]), None
        with torch.inference_mode():
            for _ in range(num_tokens):
                found = model(input_ids=ids, past_key_values=past, use_cache=True, logits_to_keep=1)
                ids, past = found.logits[:, -1].argmax(dim=-1, keepdim=True), found.past_key_values

    return decode


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """torch computes on one thread inside the block, as onnxruntime does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
