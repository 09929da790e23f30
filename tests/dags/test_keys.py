"""An upgrade does not retrain the world by accident: what a shipped pipeline's keys are made of is pinned here.

When this fails, either give the new knob its neutral value (``later`` in tasks/core/config.py), or, if the artifacts
made so far are really no longer what the stage makes, accept the digests printed below and say so in CHANGELOG.md.
"""

import hashlib
import json
from pathlib import Path

from tasks.core.config import canonical_json, identity_of
from tasks.core.pipeline import load
from tasks.core.stage import signature_of

ROOT = Path(__file__).parents[2]
PINNED = Path(__file__).with_name("keys.json")


def pipelines() -> list[Path]:
    return sorted((ROOT / "dags").glob("*.yaml"))


def digests_of(pipeline: Path) -> dict[str, str]:
    """For each stage a digest of its version, its inputs' names and its deciding knobs."""
    loaded = load(pipeline)
    found = {}
    for stage, config in loaded.configs.items():
        text = canonical_json([signature_of(stage).version, loaded.wiring[stage], identity_of(config)])
        found[stage] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found


def test_the_keys_of_the_shipped_pipelines_are_those_of_the_last_release():
    now = {pipeline.stem: digests_of(pipeline) for pipeline in pipelines()}
    pinned = json.loads(PINNED.read_text("utf-8"))
    assert now == pinned, f"now: {json.dumps(now, indent=1)}"
