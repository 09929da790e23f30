"""Reads every byte again that a record vouches for, and names each file that is not what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.core import events
from tasks.core.artifact import Artifact, File, file_digest, wrong_size
from tasks.core.location import files_below

MEGABYTE = 1e6


@dataclass(frozen=True)
class Damage:
    """One file that is not what its record says."""

    artifact: Artifact
    problem: str
    seen_by_size: bool
    """Whether every use of the artifact notices it; then the next run makes the artifact again by itself."""


def check(artifacts: Sequence[Artifact]) -> list[Damage]:
    """Everything that is wrong with the files of some artifacts; progress is reported in megabytes."""
    total = sum(artifact.size_bytes for artifact in artifacts)
    found, done = [], 0
    for artifact in artifacts:
        there = files_below(artifact.path)
        for file in artifact.record.files:
            if problem := wrong_size(file, there):
                found.append(Damage(artifact, problem, seen_by_size=True))
            elif problem := wrong_bytes(artifact, file):
                found.append(Damage(artifact, problem, seen_by_size=False))
            done += file.size
            events.progress(done / MEGABYTE, total / MEGABYTE, "MB")
    return found


def wrong_bytes(artifact: Artifact, file: File) -> str | None:
    """Says that a file of the right size holds other bytes than its record says; None when it does not."""
    digest = file_digest(artifact.path / file.path)
    return None if digest == file.sha256 else f"{file.path} has other bytes: {digest[:8]} instead of {file.sha256[:8]}"
