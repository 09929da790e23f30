"""How many trials there are of each family: few by default and in CI, or the shares of ``HEADRACE_FAULT_TRIALS``."""

from __future__ import annotations

import os

TOTAL = int(os.environ.get("HEADRACE_FAULT_TRIALS", "0"))


def numbers(*, usual: int, share: float) -> range:
    """The trials of one family. A trial's number is its seed, so trial *n* of a family is the same each time."""
    return range(round(TOTAL * share) if TOTAL else usual)
