"""What would happen, before anything does: cached, will run because X changed from a to b, or waits for Y."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tasks.core import stage
from tasks.core.artifact import Artifact, Identity, altered, newest
from tasks.core.config import Config, identity_of, shortened
from tasks.core.drift import OnDrift, drift, told
from tasks.core.estimate import Cost, estimate
from tasks.core.pins import pinned
from tasks.core.pipeline import Pipeline
from tasks.core.store import Store


@dataclass(frozen=True)
class Step:
    """The fate of one stage."""

    stage: str
    fate: str
    """``cached``, ``will run``, ``waits for`` or ``refused``."""
    reason: str
    cost: Cost | None = None
    """What it will take if it runs; None for a cached stage, and where nothing was ever measured."""


def plan(pipeline: Pipeline, store: Store, *, force: Iterable[str] = (), on_drift: OnDrift = "warn") -> list[Step]:
    """Foretell every stage of a pipeline from its knobs, the records, our source and the world as they are now."""
    pipeline, pins = pinned(pipeline, store)
    steps: list[Step] = []
    known: dict[str, Artifact | None] = dict(pins)
    sizes = {name: one.size_bytes for name, one in pins.items()}
    for name, wiring in pipeline.wiring.items():
        inputs = {one: known[source] for one, source in wiring.items()}
        step, known[name] = foretell(pipeline, store, name, inputs, force=force, on_drift=on_drift)
        input_bytes = sum(sizes[source] for source in wiring.values())
        steps.append(costed(step, store, pipeline.configs[name], input_bytes))
        sizes[name] = size_of(steps[-1], known[name])
    return steps


def costed(step: Step, store: Store, config: Config, input_bytes: int) -> Step:
    """A step with its estimate, unless it is cached."""
    if step.fate == "cached":
        return step
    cost = estimate(store, step.stage, config, input_bytes + stage.outside_bytes(step.stage, config))
    return replace(step, cost=cost)


def size_of(step: Step, made: Artifact | None) -> int:
    """Bytes of a stage's artifact, as it is or as it will probably be."""
    if made is not None:
        return made.size_bytes
    return step.cost.disk_bytes if step.cost else 0


def foretell(
    pipeline: Pipeline,
    store: Store,
    name: str,
    inputs: Mapping[str, Artifact | None],
    *,
    force: Iterable[str],
    on_drift: OnDrift,
) -> tuple[Step, Artifact | None]:
    """One stage's fate, and its artifact if that is already known."""
    unknown = [pipeline.wiring[name][one] for one, artifact in inputs.items() if artifact is None]
    if unknown:
        return Step(name, "waits for", ", ".join(dict.fromkeys(unknown))), None
    made = {one: artifact for one, artifact in inputs.items() if artifact}
    identity = identity_now(name, pipeline.configs[name], made)
    found = newest(store, store.artifact(name, identity.key))
    if name in force:
        return Step(name, "will run", "because it is forced"), None
    if not stage.signature_of(name).cached:
        return Step(name, "will run", "because it is a check and never cached"), found
    if found is None or altered(found):
        return Step(name, "will run", why(store, identity)), None
    if not (changed := drift(name, found.record.made["source"])):
        return Step(name, "cached", f"made {found.record.made['at']}"), found
    if on_drift == "warn":
        return Step(name, "cached", f"made {found.record.made['at']}, before {told(changed)} changed"), found
    fate = "will run" if on_drift == "rerun" else "refused"
    return Step(name, fate, why(store, identity)), None


def identity_now(name: str, config: Config, inputs: Mapping[str, Artifact]) -> Identity:
    """All that decides what a stage makes: its code's version, its knobs, its inputs, the world as it is now."""
    digests = {one: artifact.record.content_digest for one, artifact in inputs.items()}
    version = stage.signature_of(name).version
    return Identity(name, version, identity_of(config), digests, stage.fingerprint(name, config))


def why(store: Store, identity: Identity) -> str:
    """Why a stage will run: what differs from the nearest artifact there is, as ``because X changed from a to b``."""
    if not stage.signature_of(identity.stage).cached:
        return "because it is a check and never cached"
    found = newest(store, store.artifact(identity.stage, identity.key))
    if found is not None and (lost := altered(found)):
        return f"because {', '.join(lost)}"
    if found is not None and (changed := drift(identity.stage, found.record.made["source"])):
        return f"because of drift: {told(changed)} changed"
    others = [one for path in store.artifacts(identity.stage) if (one := newest(store, path)) is not None]
    if not others:
        return "because it was never made in this store"
    nearest = min(others, key=lambda one: (len(list(differences(one.record.identity, identity))), _age(one)))
    changed = [
        f"{name} changed from {old} to {new}" for name, old, new in differences(nearest.record.identity, identity)
    ]
    return "because " + "; ".join(changed[:4]) + (f"; and {len(changed) - 4} more" if len(changed) > 4 else "")


def _age(artifact: Artifact) -> list[int]:
    """Sorts the newest first: the characters of its ISO time, negated."""
    return [-ord(character) for character in artifact.record.made["at"]]


def differences(old: Identity, new: Identity) -> Iterator[tuple[str, str, str]]:
    """Each leaf in which two identities differ: its name as the user knows it, the old value, the new value."""
    before, after = dict(leaves(asdict(old))), dict(leaves(asdict(new)))
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield spoken(new.stage, name), _shown(before, name), _shown(after, name)


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested mappings and lists with dotted names."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple) and any(isinstance(one, dict | list) for one in value):
        for place, inner in enumerate(value):
            label = inner[0] if isinstance(inner, list) and inner and isinstance(inner[0], str) else place
            yield from leaves(inner, f"{name}[{label}]")
    else:
        yield name, value


def spoken(stage_name: str, leaf: str) -> str:
    """A leaf's name as the user knows it: ``knobs.threshold`` of dedup is ``dedup.threshold``."""
    kind, _, rest = leaf.partition(".")
    return {
        "knobs": f"{stage_name}.{rest}",
        "inputs": f"input {rest}",
        "fingerprint": f"source {rest}",
        "version": "the stage's VERSION",
    }.get(kind, leaf)


def _shown(values: Mapping[str, Any], name: str) -> str:
    if name not in values:
        return "nothing"
    value = values[name]
    if isinstance(value, list):
        return shortened([_cut(one) for one in value])
    cut = _cut(value)
    return shortened(value) if cut == value else str(cut)


def _cut(value: Any) -> Any:
    """The beginning of a SHA-256, which is enough to see that it changed."""
    return value[:8] if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) else value
