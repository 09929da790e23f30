"""What a store holds, and how its artifacts hang together."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from upath import UPath

from tasks.core.artifact import KEY_CHARS, Artifact, Record, newest
from tasks.core.plan import differences
from tasks.core.store import Store

STAGE = re.compile(r"[a-z][a-z0-9_]{0,63}")
KEY = re.compile(rf"[0-9a-f]{{{KEY_CHARS}}}")
MAX_COMPARED = 20
"""Among how many earlier artifacts the nearest is looked for."""
MAX_DEPTH = 16
"""Generations of inputs that are followed; an index that builds on yesterday's has one for every day."""

Catalogue = dict[str, list[Artifact]]
"""The artifacts of each stage, newest first; stages in the order in which data flows through them."""


@dataclass(frozen=True)
class Source:
    """One input of an artifact, and what that was made from."""

    name: str
    """What the stage calls this input."""
    stage: str
    key: str
    digest: str
    artifact: Artifact | None
    """None when the store does not hold, or no longer, what was read then."""
    repeated: bool = False
    """Whether its own inputs are shown elsewhere."""
    inputs: list[Source] = field(default_factory=list)


@dataclass(frozen=True)
class Predecessor:
    """The earlier artifact of the same stage that resembles one most, and in what they differ."""

    artifact: Artifact
    changes: list[tuple[str, str, str]]
    """Name as the user knows it, its value then, its value now."""


def find(store: Store, stage: str, key: str) -> Artifact | None:
    """An artifact by its address; None for one that is not there, or an address that none can have."""
    if not STAGE.fullmatch(stage) or not KEY.fullmatch(key):
        return None
    return newest(store, store.artifact(stage, key))


def artifacts_of(store: Store, stage: str) -> list[Artifact]:
    """All artifacts of a stage, newest first."""
    if not STAGE.fullmatch(stage):
        return []
    found = [one for path in store.artifacts(stage) if KEY.fullmatch(path.name) and (one := newest(store, path))]
    return sorted(found, key=made_at, reverse=True)


def catalogue(store: Store) -> Catalogue:
    """Every artifact of the store."""
    names = sorted(path.name for path in store.root.iterdir()) if store.root.is_dir() else []
    by_stage = {name: found for name in names if (found := artifacts_of(store, name))}
    return {name: by_stage[name] for name in sorted(by_stage, key=lambda name: (depth(by_stage, name), name))}


def depth(by_stage: Catalogue, stage: str, below: frozenset[str] = frozenset()) -> int:
    """How many stages lie before one, by what its newest artifact was made from."""
    if stage in below or stage not in by_stage:
        return 0
    stages = [place_of(uri)[0] for uri in by_stage[stage][0].record.inputs.values()]
    return 1 + max((depth(by_stage, one, below | {stage}) for one in stages), default=0)


def made_at(artifact: Artifact) -> str:
    """When it was made, in UTC as ISO 8601, which sorts as text."""
    return str(artifact.record.made["at"])


def place_of(uri: str) -> tuple[str, str]:
    """Stage and key of an artifact's URI, wherever its store was then."""
    _, stage, key = uri.rstrip("/").rsplit("/", 2)
    return stage, key


def sources_of(store: Store, record: Record, seen: set[str] | None = None, level: int = 0) -> list[Source]:
    """What an artifact was made from, and that in turn; what several have in common is followed once."""
    seen = set() if seen is None else seen
    found = []
    for name, uri in record.inputs.items():
        stage, key = place_of(uri)
        digest = record.identity.inputs[name]
        artifact = with_content(store, stage, key, digest)
        repeated = f"{stage}/{key}" in seen or level == MAX_DEPTH
        seen.add(f"{stage}/{key}")
        follow = artifact is not None and artifact.record.inputs and not repeated
        inputs = sources_of(store, artifact.record, seen, level + 1) if artifact and follow else []
        found.append(Source(name, stage, key, digest, artifact, repeated and bool(artifact), inputs))
    return found


def with_content(store: Store, stage: str, key: str, digest: str) -> Artifact | None:
    """The newest record of a key that has this content; a forced run may have made other bytes since."""
    if not STAGE.fullmatch(stage) or not KEY.fullmatch(key):
        return None
    path: UPath = store.artifact(stage, key)
    for number in reversed(store.record_numbers(path)):
        record = Record.from_json(store.read_record(path, number))
        if record.content_digest == digest:
            return Artifact(str(path), record, number)
    return None


def users_of(by_stage: Catalogue, artifact: Artifact) -> list[Artifact]:
    """The artifacts that were made from this one's content, in the order of the catalogue."""
    digest = artifact.record.content_digest
    return [one for found in by_stage.values() for one in found if digest in one.record.identity.inputs.values()]


def predecessor_of(artifact: Artifact, same_stage: list[Artifact]) -> Predecessor | None:
    """The nearest artifact made before this one, the newest of several as near; None for the first."""
    earlier = [one for one in same_stage if made_at(one) < made_at(artifact)][:MAX_COMPARED]
    found = [Predecessor(one, list(differences(one.record.identity, artifact.record.identity))) for one in earlier]
    return min(found, key=lambda one: len(one.changes), default=None)
