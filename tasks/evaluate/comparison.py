"""Whether a model is better than the one in service, on the same documents, and how sure that is."""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.evaluate.config import EvaluateConfig
from tasks.evaluate.held_out import Floats, HeldOut, bits_of_documents

LEVELS = (0.025, 0.975)
BLOCK_CELLS = 4_000_000
"""Drawn documents held in memory at once."""

# Shapes: N tokens of the stream, D documents.


def compare(config: EvaluateConfig, held_out: HeldOut, model_N: Floats, champion_N: Floats) -> dict[str, Any]:
    """The model's bits over the champion's: ``ratio``, its 95% interval ``low`` to ``high``, ratios ``by_language``.

    Below 1 the model is better. Both are scored on the same tokens, so this is also the ratio of bits per byte.
    Rounded so that the order of a sum does not show.
    """
    model_D, champion_D = (bits_of_documents(held_out, bits) for bits in (model_N, champion_N))
    low, high = ratio_interval(model_D, champion_D, num_bootstrap=config.num_bootstrap, seed=config.seed)
    language_D = np.array(held_out.documents["language"].to_pylist(), dtype=object)
    return {
        "ratio": round(float(model_D.sum() / champion_D.sum()), 5),
        "low": round(low, 5),
        "high": round(high, 5),
        "by_language": {
            language: round(float(model_D[chosen].sum() / champion_D[chosen].sum()), 5)
            for language in np.unique(language_D).tolist()
            for chosen in [language_D == language]
        },
    }


def ratio_interval(model_D: Floats, champion_D: Floats, *, num_bootstrap: int, seed: int) -> tuple[float, float]:
    """95% interval of ``sum(model_D) / sum(champion_D)`` over the documents that might have been held out.

    The paired percentile bootstrap (Efron and Tibshirani 1993, chapter 13; for scores of language systems Koehn 2004):
    documents are drawn with replacement, as many as there are, and both models are judged on the same draw, so what
    makes a document hard for both cancels. Tokens of a document depend on each other and are never drawn apart.
    """
    generator, num_documents = np.random.default_rng(seed), len(model_D)
    block = max(1, BLOCK_CELLS // num_documents)
    ratios = []
    for start in range(0, num_bootstrap, block):
        drawn = generator.integers(num_documents, size=(min(block, num_bootstrap - start), num_documents))
        ratios.append(model_D[drawn].sum(axis=1) / champion_D[drawn].sum(axis=1))
    low, high = np.quantile(np.concatenate(ratios), LEVELS)
    return float(low), float(high)
