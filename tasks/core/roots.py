"""What garbage collection starts from, besides what is at work: the recent runs of each pipeline, and pins.

    <store>/runs/<pipeline>/<run>/<stage>-<key>.json    a run asked for this artifact, before it was there or not
    <store>/pins/<stage>-<key>.json                     a person wants to keep it; until the file is removed

They name artifacts by stage and key, so a store can be moved. A run is known from its first stage on, however it ends:
what it made so far, and the checkpoints of the training it was killed in, are kept like the rest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import quote

from upath import UPath

from tasks.core.artifact import name_of
from tasks.core.location import names_in
from tasks.core.mlflow_runs import RunContext
from tasks.core.store import Store

RUNS, PINS = "runs", "pins"
RUNS_KEPT = 10
"""Newest runs of each pipeline whose artifacts are kept."""
MAX_NAME_CHARS = 200


def remember(store: Store, run: RunContext, stage: str, key: str) -> None:
    """Note that a run of a pipeline asks for an artifact; outside of a pipeline nothing is noted."""
    if run.pipeline and run.run_id:
        write(store, store.root / RUNS / run.pipeline / folder_name(run.run_id), f"{stage}/{key}")


def pin(store: Store, uri: str) -> UPath:
    """Keep an artifact, and what it was made from, until the file that is returned is removed."""
    return write(store, store.root / PINS, name_of(uri))


def write(store: Store, folder: UPath, name: str) -> UPath:
    """Name an artifact in a folder of roots, once."""
    path = folder / f"{name.replace('/', '-')}.json"
    if not path.exists():
        with suppress(FileExistsError):
            store.create(path, json.dumps({"artifact": name}).encode())
    return path


def folder_name(run_id: str) -> str:
    """A run's id as a file name that a person recognises; HDFS allows no colon."""
    return quote(run_id, safe=" +=@,")[:MAX_NAME_CHARS]


def roots(store: Store) -> Iterator[str]:
    """``stage/key`` of every artifact that is pinned or that a recent run used."""
    yield from named_in(store.root / PINS)
    for runs in runs_by_pipeline(store):
        for run in runs[:RUNS_KEPT]:
            yield from named_in(run)


def forget_old_runs(store: Store) -> None:
    """Remove what was noted of all but the newest runs of each pipeline."""
    for runs in runs_by_pipeline(store):
        for run in runs[RUNS_KEPT:]:
            store.discard(run)


def newest_run(store: Store, pipeline: str) -> list[str]:
    """``stage/key`` of what the most recent run of a pipeline asked for; empty when it never ran."""
    runs = runs_in(store, store.root / RUNS / pipeline)
    return list(named_in(runs[0])) if runs else []


def runs_by_pipeline(store: Store) -> Iterator[list[UPath]]:
    """For each pipeline the folders of its runs, the most recent first."""
    folder = store.root / RUNS
    for pipeline in names_in(folder):
        yield runs_in(store, folder / pipeline)


def runs_in(store: Store, pipeline: UPath) -> list[UPath]:
    """The folders of a pipeline's runs, the most recent first by the store's clock."""
    runs = [pipeline / name for name in names_in(pipeline)]
    last_use = [max((store.modified(run / name) for name in names_in(run)), default=0.0) for run in runs]
    return [run for _, run in sorted(zip(last_use, runs, strict=True), key=lambda pair: -pair[0])]


def named_in(folder: UPath) -> Iterator[str]:
    """The artifacts that the files of a folder of roots name."""
    for name in names_in(folder):
        if name.endswith(".json"):
            yield json.loads((folder / name).read_text("utf-8"))["artifact"]
