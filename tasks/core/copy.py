"""Copies an artifact to another store: every byte is verified on the way, and the record is published last."""

from __future__ import annotations

from dataclasses import replace

from upath import UPath

from tasks.core import events, roots
from tasks.core.artifact import Artifact, File, copy_digested, is_outside, newest, publish, published
from tasks.core.attempt import attempting
from tasks.core.check import MEGABYTE, check
from tasks.core.errors import DataError
from tasks.core.store import Store


def copy(source: Store, uri: str, target: Store) -> Artifact:
    """Copy the newest artifact at ``uri``, without what it was made from; its inputs' URIs stay as provenance.

    Nothing in the target leads to a copy, so it is pinned there. A target that holds the same files already is left
    as it is.

    Raises:
        DataError: there is no artifact, or it is damaged; nothing was published then.
    """
    source.in_use(UPath(uri))
    artifact = published(source, uri)
    identity = artifact.record.identity
    there = target.artifact(identity.stage, identity.key)
    with target.locked(identity.stage, identity.key):
        found = newest(target, there)
        if found is None or found.record.files != artifact.record.files or check([found]):
            found = publish_copy(artifact, target, after=found.number if found else 0)
    roots.pin(target, found.uri)
    return found


def publish_copy(artifact: Artifact, target: Store, *, after: int) -> Artifact:
    """Copy the files into an attempt of the target and publish it there."""
    record = artifact.record
    with attempting(target, record.identity.stage, record.identity.key, []) as out:
        copy_files(artifact, out)
        target.make_durable(out)
        made = {**record.made, "copied_from": artifact.uri}
        return publish(target, replace(record, attempt=out.name, made=made), after=after, adopt=False)


def copy_files(artifact: Artifact, out: UPath) -> None:
    """Copy every file of an artifact.

    Raises:
        DataError: naming every file that is gone or is not what the record says.
    """
    done, problems = 0, []
    for file in artifact.record.files:
        if problem := copy_file(artifact, file, out):
            problems.append(f"{file.path} {problem}")
        done += file.size
        events.progress(done / MEGABYTE, artifact.size_bytes / MEGABYTE, "MB")
    if problems:
        raise DataError(
            f"{artifact.uri} is damaged and was not copied: {', '.join(problems)}",
            subject=artifact.uri,
            next_step=f"make it again: run its pipeline with --force {artifact.record.identity.stage}",
        )


def copy_file(artifact: Artifact, file: File, out: UPath) -> str | None:
    """Copy one file; says what is wrong with it, or None when the bytes are those of the record."""
    if is_outside(file.path):
        return "lies outside of its artifact"
    target = out / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        digest = copy_digested(artifact.path / file.path, target)
    except FileNotFoundError:
        return "is gone"
    return None if digest == file.sha256 else "has other bytes"
