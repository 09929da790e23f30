"""How artifacts hang together: what one was made from, what was made from it, and what came before it."""

from __future__ import annotations

from dataclasses import dataclass, field

from plugins.views.catalogue import STAGE, Catalogue, made_at, place_of
from tasks.core.artifact import KEY, Artifact, Record
from tasks.core.plan import differences
from tasks.core.store import Store

MAX_COMPARED = 20
"""Among how many earlier artifacts the nearest is looked for."""
MAX_DEPTH = 16
"""Generations of inputs that are followed; an index that builds on yesterday's has one for every day."""


@dataclass(frozen=True)
class Source:
    """One input of an artifact, and what that was made from."""

    name: str
    """What the stage calls this input."""
    stage: str
    key: str
    artifact: Artifact | None
    """None when the store does not hold, or no longer, what was read then."""
    folded: bool = False
    """Whether it has inputs that are not followed here."""
    inputs: list[Source] = field(default_factory=list)


@dataclass(frozen=True)
class Predecessor:
    """The earlier artifact of the same stage that resembles one most, and in what they differ."""

    artifact: Artifact
    changes: list[tuple[str, str, str]]
    """Name as the user knows it, its value then, its value now."""


def sources_of(store: Store, record: Record, seen: set[str] | None = None, level: int = 0) -> list[Source]:
    """What an artifact was made from, and that in turn; what several have in common is followed once."""
    seen = set() if seen is None else seen
    found = []
    for name, uri in record.inputs.items():
        stage, key = place_of(uri)
        artifact = with_content(store, stage, key, record.identity.inputs[name])
        further = artifact.record if artifact and artifact.record.inputs else None
        folded = further is not None and (f"{stage}/{key}" in seen or level == MAX_DEPTH)
        seen.add(f"{stage}/{key}")
        inputs = sources_of(store, further, seen, level + 1) if further and not folded else []
        found.append(Source(name, stage, key, artifact, folded, inputs))
    return found


def with_content(store: Store, stage: str, key: str, digest: str) -> Artifact | None:
    """The newest record of a key that has this content; a forced run may have made other bytes since."""
    if not STAGE.fullmatch(stage) or not KEY.fullmatch(key):
        return None
    path = store.artifact(stage, key)
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
