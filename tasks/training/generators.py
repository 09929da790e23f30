"""The generators of random numbers that a training may draw from: seeded, kept in checkpoints, put back."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def seed_generators(seed: int) -> None:
    """Seed all of them; ``seed`` is not negative."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def late_seed(seed: int, rank: int, step: int) -> int:
    """Seed of a process that joins a run of ``seed`` at a later step; the same whenever it does so again."""
    return int(np.random.SeedSequence((seed, rank, step)).generate_state(1)[0])


def random_state() -> dict[str, Any]:
    """State of all of them, as values that load without running code."""
    version, words, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    assert kind == "MT19937"
    return {
        "python": [version, list(words), gauss],
        "numpy": [torch.from_numpy(np.asarray(keys).astype(np.int64)), int(position), int(has_gauss), float(cached)],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
    }


def restore_random_state(state: dict[str, Any]) -> None:
    """Undo of :func:`random_state`."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state(("MT19937", keys.numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(state["torch"])
    if state["cuda"] is not None:
        torch.cuda.set_rng_state(state["cuda"])
