"""The verbs of ``python -m tasks`` that look after what was made: check, copy, promote, collect."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from tasks.core import events, gc, probe, roots, store_errors
from tasks.core.artifact import Artifact, find, key_folders, name_of, newest, published
from tasks.core.champion import ALIAS, crown
from tasks.core.check import Damage, check
from tasks.core.copy import copy
from tasks.core.errors import ConfigError, DataError, ServiceError
from tasks.core.registered import registered_artifacts
from tasks.core.sinks import ConsoleSink
from tasks.core.store import Store, open_store


def add_arguments(verbs: Mapping[str, argparse.ArgumentParser]) -> None:
    """Arguments of the verbs that look after a store."""
    check = verbs["check"]
    check.add_argument("uris", nargs="*", metavar="URI", help="artifacts to check, or all (default: all)")
    check.add_argument("--probe", action="store_true", help="prove that of many who publish at once exactly one wins")
    promoting = verbs["promote"]
    promoting.add_argument("uri", metavar="URI", help="the artifact of the stage package")
    promoting.add_argument("--partition", default="", help="the newest partition it has learned from, if any")
    copying = verbs["copy"]
    copying.add_argument("uri", metavar="URI", help="the artifact")
    copying.add_argument("target", metavar="STORE", help="where to copy it to")
    collecting = verbs["gc"]
    either = collecting.add_mutually_exclusive_group()
    either.add_argument("--dry-run", action="store_true", help="say what would go, and change nothing")
    either.add_argument("--keep", action="append", default=[], metavar="URI", help="keep it, from now on")
    collecting.add_argument(
        "--no-registry", action="store_true", help="do not ask MLflow: no model registry needs anything of this store"
    )


def check_store(options: argparse.Namespace) -> int:
    store = open_store(options.store)
    if options.probe:
        probe.prove_exclusive_writes(store)
        print(f"{store.root}: of {probe.NUM_WRITERS} writers at once exactly one won, each of {probe.NUM_RACES} times")
        return 0
    artifacts = chosen_artifacts(store, options.uris)
    with ConsoleSink("check") as console, events.listening(console):
        damages = check(artifacts)
    for one in damages:
        print(f"{one.artifact.uri}: {one.problem}")
    if damages:
        raise damaged(damages)
    num_bytes = sum(one.size_bytes for one in artifacts)
    print(f"{len(artifacts):,} artifacts in {store.root}, {num_bytes:,} bytes: every file is what its record says")
    return 0


def chosen_artifacts(store: Store, uris: Sequence[str]) -> list[Artifact]:
    """The newest artifacts at the given URIs; all there are without any, or with ``all``."""
    if not uris or "all" in uris:
        return [found for folder in key_folders(store) if (found := newest(store, folder))]
    return [published(store, uri) for uri in uris]


def damaged(damages: Sequence[Damage]) -> DataError:
    """What a check found, and what mends it."""
    num_artifacts = len({one.artifact.uri for one in damages})
    hidden = sorted({one.artifact.record.identity.stage for one in damages if not one.seen_by_size})
    steps = ["run the pipeline: what is gone or cut off is made again"] if any(d.seen_by_size for d in damages) else []
    if hidden:
        force = " ".join(f"--force {stage}" for stage in hidden)
        steps.append(f"other bytes of the same size are made again by: python -m tasks run PIPELINE.yaml {force}")
    return DataError(f"{len(damages)} files of {num_artifacts} artifacts are damaged", next_step="; ".join(steps))


def copy_artifact(options: argparse.Namespace) -> int:
    source, target = open_store(options.store), open_store(options.target)
    with ConsoleSink("copy") as console, events.listening(console), store_errors.told(target.root):
        made = copy(source, options.uri, target)
    print(f"{made.uri} is record {made.number}, {made.size_bytes:,} bytes; kept by a pin in {target.root / roots.PINS}")
    return 0


def promote(options: argparse.Namespace) -> int:
    found = find(open_store(options.store), options.uri)
    if "model_name" not in found.record.config:
        stage = found.record.identity.stage
        raise ConfigError(f"{options.uri} is an artifact of {stage}; what is promoted is one of package")
    made = crown(found.record.config["model_name"], found.uri, options.partition)
    print(f"models:/{made.model}@{ALIAS} is version {made.version}: {found.uri}")
    return 0


def collect_garbage(options: argparse.Namespace) -> int:
    store = open_store(options.store)
    for uri in options.keep:
        print(f"kept until this file is removed: {roots.pin(store, find(store, str(store.root / name_of(uri))).uri)}")
    registered, refusal = asked_registry(options)
    found = gc.collect(store, registered, dry_run=options.dry_run)
    for one in found:
        print(f"{one.kind:<13} {one.size_bytes:>15,} bytes  {one.path}  {one.reason}")
    removed = [one.size_bytes for one in found if one.kind in (gc.ATTEMPT, gc.LEFTOVER, gc.SWEPT)]
    marked = [one.size_bytes for one in found if one.kind == gc.MARKED]
    would = "would be " if options.dry_run else ""
    print(
        f"{store.root}: {sum(removed):,} bytes in {len(removed)} places {would}removed, "
        f"{sum(marked):,} bytes in {len(marked)} artifacts {would}marked"
    )
    if refusal is not None:
        raise refusal
    return 0


def asked_registry(options: argparse.Namespace) -> tuple[set[str] | None, ServiceError | None]:
    """What MLflow's registry needs; None and the reason when it cannot be asked."""
    try:
        return set() if options.no_registry else registered_artifacts(), None
    except ServiceError as error:
        return None, error
