"""What a stage will cost, before it runs: scaled from a run that was measured.

That is the run in this store whose work was most similar or, where a stage never ran, the one on the shipped sample
that is kept beside it (``tasks/<stage>/measured.json``; two cores, no accelerator). *Work* is what the configuration
says it is, a property ``work`` such as tokens times weights, and else the bytes of the inputs; only then do memory and
disk grow with it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.core.artifact import Artifact, newest
from tasks.core.config import Config
from tasks.core.stage import stage_files
from tasks.core.store import Store

STARTUP_S = 2.0
"""What every stage spends whatever its work: a process, its imports, a record."""
MEASURED = "measured.json"


@dataclass(frozen=True)
class Cost:
    """Of one stage, measured or estimated."""

    work: float
    seconds: float
    peak_memory_bytes: int
    disk_bytes: int

    def scaled(self, work: float, *, in_bytes: bool) -> Cost:
        """The cost of another amount of work; memory never falls below what was measured."""
        ratio = work / self.work
        growth = ratio if in_bytes else 1.0
        return Cost(
            work,
            STARTUP_S + max(0.0, self.seconds - STARTUP_S) * ratio,
            round(self.peak_memory_bytes * max(1.0, growth)),
            round(self.disk_bytes * growth),
        )


def estimate(store: Store, stage: str, config: Config, input_bytes: int) -> Cost | None:
    """What a stage will cost; None for one that was never measured, here or on the sample."""
    work = work_of(config, input_bytes)
    measured = [cost for path in store.artifacts(stage) if (cost := cost_of(newest(store, path)))]
    if not measured and (sample := sample_cost(stage)):
        measured = [sample]
    if not measured:
        return None
    nearest = min(measured, key=lambda cost: abs(math.log(cost.work / work)))
    return nearest.scaled(work, in_bytes=not hasattr(config, "work"))


def work_of(config: Config, input_bytes: int) -> float:
    """How much there is to do, in a unit of the stage's own; more than 0."""
    return float(max(1, getattr(config, "work", input_bytes)))


def cost_of(artifact: Artifact | None) -> Cost | None:
    """What an artifact cost; None when its record does not say."""
    if artifact is None:
        return None
    told: Mapping[str, Any] = artifact.record.measured
    if not {"work", "seconds", "peak_memory_bytes"} <= set(told):
        return None
    return Cost(told["work"], told["seconds"], told["peak_memory_bytes"], artifact.size_bytes)


def sample_cost(stage: str) -> Cost | None:
    """What the stage cost on the shipped sample; None where nobody has measured it."""
    path = stage_files()[stage].with_name(MEASURED)
    return Cost(**json.loads(path.read_text("utf-8"))) if path.is_file() else None


def cost_told(cost: Cost) -> str:
    """A cost in the words of ``plan``: ``about 12 s, 430 MB``."""
    return f"about {_duration(cost.seconds)}, {_size(cost.peak_memory_bytes)}"


def total_told(costs: Sequence[Cost]) -> str:
    """Stages one after the other: their time adds up, their memory does not."""
    seconds, disk_bytes = sum(cost.seconds for cost in costs), sum(cost.disk_bytes for cost in costs)
    memory_bytes = max(cost.peak_memory_bytes for cost in costs)
    return f"about {_duration(seconds)}, {_size(memory_bytes)} of memory at most, {_size(disk_bytes)} on disk"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _size(num_bytes: float) -> str:
    """Two or three digits and a unit, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:.1f} {unit}" if num_bytes < 10 else f"{num_bytes:.0f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f} TB"
