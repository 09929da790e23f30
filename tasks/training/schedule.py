"""The learning rate over a run, as a share of its peak."""

from __future__ import annotations

import math
from typing import Literal

Schedule = Literal["cosine", "wsd"]
DECAY_SHARE = 0.6
"""Last part of a ``wsd`` run in which the rate falls. Longer than the 10-20% of Hu et al. 2024 (arXiv:2404.06395):
short runs gain from a long decay (Hägele et al. 2024, arXiv:2405.18392, figure 5)."""
FINAL_FACTOR = 0.02


def factor(step: int, num_steps: int, *, schedule: Schedule, warmup_share: float) -> float:
    """Share of the peak learning rate at ``step``, counted from 0 to ``num_steps - 1``.

    Linear warm-up over ``warmup_share`` of the steps (at least one), then ``cosine``: half a cosine down to
    :data:`FINAL_FACTOR` (Loshchilov and Hutter 2017, arXiv:1608.03983), or ``wsd``: constant, then a line down to it.
    """
    warmup = max(1, round(warmup_share * num_steps))
    if step < warmup:
        return (step + 1) / warmup
    if schedule == "cosine":
        done = (step - warmup + 1) / (num_steps - warmup)
        return FINAL_FACTOR + (1 - FINAL_FACTOR) * 0.5 * (1 + math.cos(math.pi * done))
    start = max(warmup, round(num_steps * (1 - DECAY_SHARE)))
    done = max(0.0, (step - start + 1) / (num_steps - start))
    return 1 - (1 - FINAL_FACTOR) * done
