"""What a store holds."""

from __future__ import annotations

import re

from tasks.core.artifact import KEY, Artifact, newest
from tasks.core.store import Store

STAGE = re.compile(r"[a-z][a-z0-9_]{0,63}")
Catalogue = dict[str, list[Artifact]]
"""The artifacts of each stage, newest first; stages in the order in which data flows through them."""


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
