"""Text generation by an exported ONNX model with a key-value cache, on onnxruntime and NumPy alone.

The same file runs in the compression checks and, copied as source, inside the served package, where torch and
transformers do not exist. It therefore imports nothing of this project.

Array names: ``_BT`` batch by positions, ``_BS`` batch by cached and new positions together, ``_BTV`` with the
vocabulary, ``_V`` one position's vocabulary.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Past = dict[str, Any]
"""Keys and values of all layers by the name of the input that takes them, as onnxruntime's own values."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen and when to stop."""

    max_tokens: int = 16
    temperature: float = 0.0
    """0 takes the most likely token; otherwise logits are divided by it."""
    top_p: float = 1.0
    """Sample from the smallest set of tokens whose probability reaches this (nucleus sampling, arXiv:1904.09751)."""
    seed: int | None = None
    """The same seed draws the same tokens; None draws anew each time."""
    ignore_end: bool = False
    """Go on after an end token, as a measurement of speed wants."""


class OnnxModel:
    """A causal language model exported with its key-value cache.

    Args:
        folder: holds ``config.json`` and ``<variant>/model.onnx``.
        variant: ``fp32`` or ``int8``.
        threads: threads of one operator. With one, the same input gives the same bits on the same machine.
    """

    def __init__(self, folder: Path, variant: str, *, threads: int = 1) -> None:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        self.context: int = config["max_position_embeddings"]
        self.vocab_size: int = config["vocab_size"]
        eos = config["eos_token_id"]
        self.eos_ids = frozenset(eos if isinstance(eos, list) else [eos])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors only: the exporter's unused initialisers are not news to a reader
        path = folder / variant / "model.onnx"
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._past = {one.name: one.shape for one in self.session.get_inputs() if "past" in one.name}
        self._outputs = [one.name for one in self.session.get_outputs()]

    def empty_past(self, batch: int) -> Past:
        """A cache of no positions for ``batch`` sequences."""
        shapes = {name: (batch, shape[1], 0, shape[3]) for name, shape in self._past.items()}
        return {name: _value(np.zeros(shape, np.float32)) for name, shape in shapes.items()}

    def step(self, ids_BT: Ints, mask_BS: Ints, positions_BT: Ints, past: Past) -> tuple[Floats, Past]:
        """Read ``T`` more tokens per sequence; logits of shape ``(B, T, V)`` and the longer cache."""
        feeds = {"input_ids": _value(ids_BT), "attention_mask": _value(mask_BS), "position_ids": _value(positions_BT)}
        values = self.session.run_with_ort_values(self._outputs, feeds | past)
        by_name = dict(zip(self._outputs, values, strict=True))
        present = {name: by_name[name.replace("past_key_values", "present")] for name in self._past}
        logits: Floats = by_name["logits"].numpy()
        return logits, present

    def logits(self, ids_BT: Ints) -> Floats:
        """Logits of every position of unpadded sequences of one length; shape ``(B, T, V)``."""
        batch, length = ids_BT.shape
        positions = np.broadcast_to(np.arange(length), ids_BT.shape).copy()
        return self.step(ids_BT, np.ones((batch, length), np.int64), positions, self.empty_past(batch))[0]


def _value(array: npt.NDArray[Any]) -> Any:
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def generate(model: OnnxModel, prompt: Sequence[int], sampling: Sampling) -> Iterator[int]:
    """Tokens that follow ``prompt``, one at a time, until an end token (not yielded), ``max_tokens`` or the context.

    Raises:
        ValueError: when the prompt is empty or leaves no room in the context.
    """
    if not 0 < len(prompt) < model.context:
        raise ValueError(f"a prompt of 1 to {model.context - 1} tokens is needed (got {len(prompt)})")
    draw = Sampler(sampling)
    ids, past = np.array([prompt], np.int64), model.empty_past(1)
    length = len(prompt)
    for _ in range(min(sampling.max_tokens, model.context - length)):
        positions = np.arange(length - ids.shape[1], length)[None]
        logits_BTV, past = model.step(ids, np.ones((1, length), np.int64), positions, past)
        token = draw(logits_BTV[0, -1])
        if token in model.eos_ids and not sampling.ignore_end:
            return
        yield token
        ids, length = np.array([[token]], np.int64), length + 1


class Sampler:
    """Chooses the next token; holds the stream of random numbers of one completion."""

    def __init__(self, sampling: Sampling) -> None:
        self.temperature, self.top_p = sampling.temperature, sampling.top_p
        self._bits = np.random.PCG64(sampling.seed)

    def __call__(self, logits_V: Floats) -> int:
        if self.temperature == 0:
            return int(logits_V.argmax())
        probabilities = nucleus(logits_V, self.temperature, self.top_p)
        # Raw PCG64 output: NumPy guarantees its stream across versions, which it does not for Generator's methods.
        uniform = int(self._bits.random_raw()) / math.ldexp(1.0, 64)
        chosen = int(np.searchsorted(np.cumsum(probabilities), uniform, side="right"))
        return min(chosen, int(np.flatnonzero(probabilities)[-1]))


def nucleus(logits_V: Floats, temperature: float, top_p: float) -> npt.NDArray[np.float64]:
    """Probabilities of the tokens after temperature and nucleus cut, summing to 1; shape ``(V,)``."""
    scaled = logits_V.astype(np.float64) / temperature
    probabilities: npt.NDArray[np.float64] = np.exp(scaled - scaled.max())
    probabilities /= probabilities.sum()
    if top_p < 1:
        order = np.argsort(-probabilities, kind="stable")
        before = np.cumsum(probabilities[order]) - probabilities[order]
        probabilities[order[before >= top_p]] = 0.0
        probabilities /= probabilities.sum()
    return probabilities


def left_padded(prompts: Sequence[Sequence[int]], pad_id: int) -> tuple[Ints, Ints]:
    """Prompts as one array with padding before the shorter ones, and the mask that is 0 there; both ``(B, T)``."""
    width = max(map(len, prompts))
    ids = np.array([[pad_id] * (width - len(one)) + list(one) for one in prompts], np.int64)
    mask = np.array([[0] * (width - len(one)) + [1] * len(one) for one in prompts], np.int64)
    return ids, mask


def positions_of(mask_BS: Ints) -> Ints:
    """Position of each token in its own sequence; padding before it does not count. Shape ``(B, S)``."""
    positions: Ints = np.maximum(mask_BS.cumsum(axis=1) - 1, 0)
    return positions


def greedy_batch(model: OnnxModel, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[list[int]]:
    """Greedy continuations of several prompts in one left-padded batch, end tokens not included."""
    ids, mask = left_padded(prompts, min(model.eos_ids))
    past, found = model.empty_past(len(prompts)), [list[int]() for _ in prompts]
    running = [True] * len(prompts)
    for _ in range(min(max_tokens, model.context - ids.shape[1])):
        logits_BTV, past = model.step(ids, mask, positions_of(mask)[:, -ids.shape[1] :].copy(), past)
        tokens = logits_BTV[:, -1].argmax(axis=-1)
        for row, token in enumerate(tokens.tolist()):
            running[row] = running[row] and token not in model.eos_ids
            if running[row]:
                found[row].append(token)
        if not any(running):
            break
        ids = tokens[:, None].astype(np.int64)
        mask = np.concatenate([mask, np.ones((len(prompts), 1), np.int64)], axis=1)
    return found
