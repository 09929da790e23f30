"""How many bits a causal language model needs for each token of held-out text, by a sliding window.

A *stream* is documents back to back, each ended by ``eos_id``. Every token of it is predicted exactly once, the
closing ``eos_id`` too. A document is read on its own: its first token is predicted from the ``eos_id`` that stands
before it, and no window reaches into another document.

Array names: ``_N`` tokens of a stream, ``_BT`` windows by positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tasks.core import events

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

UNSCORED = -1.0
"""No number of bits is negative."""
MAX_PADDED = 1.25
"""How much longer than the shortest window of a batch the longest may be; computing padding is waste."""


@dataclass(frozen=True)
class Window:
    """One forward pass over tokens ``[begin, end)`` of the stream, shifted by one: the model reads the token
    before each of them and predicts it. Only ``[scored, end)`` count; what comes before is context."""

    begin: int
    scored: int
    end: int

    @property
    def length(self) -> int:
        """Positions the model reads."""
        return self.end - self.begin


def document_bounds(stream_N: Ints, eos_id: int) -> Ints:
    """``[start, end)`` of each document of a stream, ``end`` behind its ``eos_id``; shape ``(documents, 2)``.

    A last document that was cut off before its ``eos_id`` counts as one.
    """
    ends = np.flatnonzero(stream_N == eos_id) + 1
    if len(stream_N) and (not len(ends) or ends[-1] != len(stream_N)):
        ends = np.append(ends, len(stream_N))
    return np.stack([np.concatenate([[0], ends[:-1]]) if len(ends) else ends, ends], axis=1)


def windows_of(start: int, end: int, window: int, stride: int) -> Iterator[Window]:
    """The windows of one document ``[start, end)``.

    The first scores all it reads; each later one begins ``stride`` further and scores only what is new, so a
    token has at least ``window - stride`` tokens of context wherever its document has them. With ``stride ==
    window`` the document is cut into chunks without overlap.
    """
    scored = start
    for begin in range(start, end, stride):
        last = min(begin + window, end)
        yield Window(begin, scored, last)
        if last == end:
            return
        scored = last


def batches_of(windows: Sequence[Window], max_tokens: int) -> list[list[Window]]:
    """Windows of similar length together, so that at most ``max_tokens`` positions (or one window) are computed."""
    batches: list[list[Window]] = []
    for one in sorted(windows, key=lambda w: (w.length, w.scored - w.begin, w.begin)):
        if (
            not batches
            or (len(batches[-1]) + 1) * one.length > max_tokens
            or one.length > MAX_PADDED * batches[-1][0].length
        ):
            batches.append([])
        batches[-1].append(one)
    return batches


def stream_bits(
    model: Any, stream_N: Ints, *, eos_id: int, window: int, stride: int, batch_tokens: int = 4096
) -> Floats:
    """Bits a transformers causal language model needs for each token of a stream; shape ``(N,)``.

    Args:
        model: maps ``input_ids`` to ``logits`` and takes ``logits_to_keep``, as transformers models do.
        window: most positions the model reads at once.
        stride: how far the window moves; from 1 to ``window``. Smaller gives more context and costs more.
        batch_tokens: positions computed at once, padding included; changes the speed alone.

    Raises:
        ValueError: when ``stride`` is not from 1 to ``window``.
    """
    if not 1 <= stride <= window:
        raise ValueError(f"stride must be from 1 to the window of {window} (got {stride})")
    bounds = document_bounds(stream_N, eos_id)
    windows = [one for start, end in bounds.tolist() for one in windows_of(start, end, window, stride)]
    read_N = np.concatenate([[eos_id], stream_N]).astype(np.int64)
    bits_N = np.full(len(stream_N), UNSCORED)
    done, total = 0, sum(one.length for one in windows)
    for batch in batches_of(windows, batch_tokens):
        for one, bits in zip(batch, _window_bits(model, read_N, batch, pad_id=eos_id), strict=True):
            bits_N[one.scored : one.end] = bits
        done += sum(one.length for one in batch)
        events.progress(done, total, "tokens")
    assert (bits_N != UNSCORED).all()
    return bits_N


def _window_bits(model: Any, read_N: Ints, batch: Sequence[Window], *, pad_id: int) -> list[Floats]:
    """Bits of the scored tokens of each window.

    Windows are padded on the right and the model gets no mask: causal attention never looks right, so padding
    cannot reach a real position, and padded positions are never scored.
    """
    width, first = max(one.length for one in batch), min(one.scored - one.begin for one in batch)
    ids_BT, targets_BT = (np.full((len(batch), width), pad_id, np.int64) for _ in range(2))
    for row, one in enumerate(batch):
        ids_BT[row, : one.length] = read_N[one.begin : one.end]
        targets_BT[row, : one.length] = read_N[one.begin + 1 : one.end + 1]
    device = next(model.parameters()).device
    keep = torch.arange(first, width, device=device)
    targets = torch.from_numpy(targets_BT[:, first:]).to(device)
    with torch.inference_mode():
        logits = model(input_ids=torch.from_numpy(ids_BT).to(device), use_cache=False, logits_to_keep=keep).logits
        nats = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="none")
    bits_BT = nats.view_as(targets).double().cpu().numpy() / np.log(2)
    return [bits_BT[row, one.scored - one.begin - first : one.length - first] for row, one in enumerate(batch)]
