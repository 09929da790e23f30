"""Artifacts of the lifecycle pipeline for benchmarks; what is in the store already is not made again.

Run a benchmark by ``make bench`` or ``bin/with-env python benchmarks/<name>.py``, which put the checkout on the path.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from tasks.core.artifact import Artifact, find
from tasks.core.config import plain
from tasks.core.pipeline import load
from tasks.core.runner import Spec, run
from tasks.core.store import open_store

ROOT = Path(__file__).parents[1]


def artifacts(until: str, *settings: str) -> dict[str, Artifact]:
    """The artifacts of all stages that ``until`` depends on, and its own, with knobs changed as on the command line."""
    os.chdir(ROOT)  # the sample's paths are relative to the checkout
    pipeline, store = load(ROOT / "dags" / "lifecycle.yaml", settings), open_store()
    needed = needed_for(until, pipeline.wiring)
    made: dict[str, Artifact] = {}
    for stage, wiring in pipeline.wiring.items():
        if stage in needed:
            inputs = {name: made[source].uri for name, source in wiring.items()}
            outcome = run(Spec(stage=stage, config=plain(pipeline.configs[stage]), inputs=inputs), store)
            made[stage] = find(store, outcome.uri)
    return made


def needed_for(stage: str, wiring: dict[str, dict[str, str]]) -> set[str]:
    """A stage and everything it depends on."""
    return {stage}.union(*(needed_for(source, wiring) for source in wiring[stage].values()))


def conclude(name: str, ours: float, peer: float, *, floor: float, unit: str, ratio: float | None = None) -> int:
    """Print the last line of a benchmark; returns its exit status."""
    ratio = ours / peer if ratio is None else ratio
    told = {"name": name, "ours": ours, "peer": peer, "ratio": ratio, "floor": floor, "unit": unit}
    print(json.dumps(told))
    return int(ratio < floor)
