"""Bits per byte of held-out documents, in total and by language and source, for a model and its baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.core.errors import DataError, GateError
from tasks.lm.perplexity import document_bounds, stream_bits
from tasks.lm.token_shards import TokenShards

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SOLO_DOCUMENTS = 8
MAX_BATCH_DIFFERENCE = 1e-3
"""Relative; fp32 sums in another order differ by about 1e-6, a mask that lets padding through by 1e-2 and more."""


@dataclass(frozen=True)
class HeldOut:
    """The documents of one split as a stream of tokens, and what is known of each document."""

    tokens: Ints
    documents: pa.Table
    """Rows ``[language, source, num_tokens, num_bytes]`` in the order of the stream."""
    eos_id: int
    vocab_size: int


def read_held_out(shards: TokenShards) -> HeldOut:
    """All of a split.

    Raises:
        DataError: when the split holds no text, or its documents do not each end with the one ``eos_id`` they hold.
    """
    if not shards.num_bytes:
        raise DataError(
            f"the {shards.split} split holds no text",
            subject=str(shards.folder),
            next_step=f"raise shards.split.{shards.split}, or give the pipeline more documents",
        )
    stream_N = shards.window(0, shards.num_tokens)
    lengths = shards.documents["num_tokens"].to_numpy()
    bounds = document_bounds(stream_N, shards.eos_id)
    if not np.array_equal(bounds[:, 1], np.cumsum(lengths)):
        raise DataError(
            f"the {shards.split} documents do not each end with the end-of-text token {shards.eos_id}",
            subject=str(shards.folder),
            next_step="make the shards again",
        )
    return HeldOut(stream_N, shards.documents, shards.eos_id, shards.vocab_size)


def tables(held_out: HeldOut, bits: dict[str, Floats]) -> dict[str, Any]:
    """Numbers of ``total``, each ``by_language`` and each ``by_source``, from the bits of every token.

    Args:
        bits: bits of each token of the stream, by the name of the model that needs them.
    """
    of_document = {name: bits_of_documents(held_out, one) for name, one in bits.items()}
    everything = np.zeros(held_out.documents.num_rows, np.int64)
    return {
        "total": _groups(held_out.documents, everything, of_document)[0],
        "by_language": _by(held_out.documents, "language", of_document),
        "by_source": _by(held_out.documents, "source", of_document),
    }


def bits_of_documents(held_out: HeldOut, bits_N: Floats) -> Floats:
    """Bits of each document, from those of every token of the stream; shape ``(documents,)``."""
    starts = np.concatenate([[0], np.cumsum(held_out.documents["num_tokens"].to_numpy())[:-1]])
    found: Floats = np.add.reduceat(bits_N, starts)
    return found


def _by(documents: pa.Table, column: str, of_document: dict[str, Floats]) -> dict[str, Any]:
    names, group = np.unique(np.array(documents[column].to_pylist(), dtype=object), return_inverse=True)
    return dict(zip(names.tolist(), _groups(documents, group, of_document), strict=True))


def _groups(documents: pa.Table, group: Ints, of_document: dict[str, Floats]) -> list[dict[str, Any]]:
    """One row of numbers per group; rounded so that the order of a sum does not show."""
    num_documents = np.bincount(group)
    num_tokens, num_bytes = (
        np.bincount(group, weights=documents[one].to_numpy()).astype(np.int64) for one in ("num_tokens", "num_bytes")
    )
    totals = {name: np.bincount(group, weights=bits) for name, bits in of_document.items()}
    return [
        {
            "num_documents": int(num_documents[one]),
            "num_tokens": int(num_tokens[one]),
            "num_bytes": int(num_bytes[one]),
            "perplexity": round(float(2 ** (totals["model"][one] / num_tokens[one])), 3),
            "bits_per_byte": {
                name: round(float(total[one] / num_bytes[one]), 5) if num_bytes[one] else None
                for name, total in totals.items()
            },
        }
        for one in range(len(num_documents))
    ]


def check_batch_invariance(model: Any, held_out: HeldOut, bits_N: Floats, *, window: int, stride: int) -> float:
    """Score a few documents of all lengths again, one window at a time, and compare with the batched score.

    Returns:
        The largest relative difference of a document's bits.

    Raises:
        GateError: when it is above 1e-3: padding or a neighbour reaches into a document's score.
    """
    bounds = document_bounds(held_out.tokens, held_out.eos_id)
    by_length = np.argsort(bounds[:, 1] - bounds[:, 0], kind="stable")
    chosen = by_length[np.unique(np.linspace(0, len(by_length) - 1, SOLO_DOCUMENTS).astype(int))]
    worst = 0.0
    for start, end in bounds[chosen].tolist():
        document = held_out.tokens[start:end]
        solo = stream_bits(model, document, eos_id=held_out.eos_id, window=window, stride=stride, batch_tokens=1).sum()
        worst = max(worst, abs(float(bits_N[start:end].sum() / solo) - 1))
    if not worst <= MAX_BATCH_DIFFERENCE:
        raise GateError(
            f"a document's score depends on its batch: {worst:.2e} relative difference between solo and batched, "
            f"at most {MAX_BATCH_DIFFERENCE:g} is allowed",
            next_step="the model looks at padding; use one with causal attention, without dropout",
        )
    return worst
