"""Runs one stage: finds its artifact or makes it, and publishes it whole or not at all."""

from __future__ import annotations

import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from upath import UPath

from tasks.core import events, provenance, roots, stage, store_errors, workspace
from tasks.core.artifact import (
    Artifact,
    Identity,
    Record,
    altered,
    content_digest,
    files_of,
    find,
    newest,
    publish,
)
from tasks.core.attempt import attempting
from tasks.core.config import Config, numbers_of, plain, validated
from tasks.core.drift import OnDrift, drift, told
from tasks.core.errors import ConfigError, DataError, HeadraceError, TryAgain, five_lines
from tasks.core.estimate import work_of
from tasks.core.lease import Lease
from tasks.core.mlflow_runs import RunContext
from tasks.core.peak_memory import PeakMemory
from tasks.core.plan import identity_now, why
from tasks.core.sinks import ConsoleSink, MeasuredSink
from tasks.core.store import Store
from tasks.core.tracking import Tracker


@dataclass(frozen=True, kw_only=True)
class Spec:
    """One request to run a stage, complete: no file that another machine may lack is needed to understand it."""

    stage: str
    config: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    """URI of the artifact for each input."""
    force: bool = False
    """Make the artifact again even if there is one."""
    fingerprint: dict[str, Any] | None = None
    """What pin saw; the stage must still see the same."""
    on_drift: OnDrift = "warn"
    """What to do with an artifact that other source made: use it and say so, make it again, or refuse it."""
    run: RunContext = field(default_factory=RunContext)

    @property
    def fresh(self) -> bool:
        """Whether the stage runs even if its artifact is there."""
        return self.force or not stage.signature_of(self.stage).cached


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a :class:`Spec`; what a DAG hands from task to task."""

    stage: str
    uri: str
    cached: bool
    reason: str
    """Why it was cached, or why it ran."""
    result: dict[str, Any]
    content_digest: str
    seconds: float
    mlflow_run_id: str = ""
    mlflow_url: str = ""


@dataclass(frozen=True)
class Job:
    """A spec that was understood: what is asked for, and all that decides what will be made."""

    spec: Spec
    store: Store
    config: Config
    inputs: Mapping[str, Artifact]
    identity: Identity
    started_s: float
    """By the monotonic clock."""


def run(spec: Spec, store: Store) -> Outcome:
    """Run a stage unless its artifact is there.

    Raises:
        ConfigError: the spec cannot be understood; nothing was done.
        DataError: the data or a gate refused, or other source made the artifact and the spec refuses that.
        ServiceError: the disk is full, a service is missing.
        TryAgain: interrupted; the same spec continues.
    """
    started = time.monotonic()
    config = validated(stage.config_type_of(spec.stage), spec.config, stage=spec.stage)
    inputs = find_inputs(spec, store)
    identity = identity_for(spec, config, inputs)
    with store_errors.told(store.root):
        roots.remember(store, spec.run, identity.stage, identity.key)
        store.in_use(store.artifact(identity.stage, identity.key))
        if not spec.fresh and (found := acceptable(spec, store, identity)):
            return cached_outcome(found, started)
        with store.locked(identity.stage, identity.key) as lease:
            if not spec.fresh and (found := acceptable(spec, store, identity)):  # by another run, while this one waited
                return cached_outcome(found, started)
            return make(Job(spec, store, config, inputs, identity, started), lease)


def find_inputs(spec: Spec, store: Store) -> dict[str, Artifact]:
    """The artifacts a spec names, in the order of the stage's signature.

    Raises:
        ConfigError: when the names are not those of the signature.
        DataError: when one is missing or damaged.
    """
    signature = stage.signature_of(spec.stage)
    if not set(signature.inputs) - set(signature.optional) <= set(spec.inputs) <= set(signature.inputs):
        given = ", ".join(sorted(spec.inputs)) or "none"
        raise ConfigError(f"stage {spec.stage} reads {signature.inputs_told or 'no input'}; given: {given}")
    return {name: find(store, spec.inputs[name]) for name in signature.inputs if name in spec.inputs}


def identity_for(spec: Spec, config: Config, inputs: Mapping[str, Artifact]) -> Identity:
    """All that decides what the stage will make.

    Raises:
        DataError: when the world outside is no longer what pin saw.
    """
    identity = identity_now(spec.stage, config, inputs)
    seen = identity.fingerprint
    if seen is not None and spec.fingerprint is not None and seen != spec.fingerprint:
        changed = [name for name in {**seen, **spec.fingerprint} if seen.get(name) != spec.fingerprint.get(name)]
        raise DataError(
            f"changed since this run was pinned: {', '.join(changed)}",
            subject=", ".join(changed),
            next_step="trigger the DAG again, so that all its tasks see the same data",
        )
    return identity


def acceptable(spec: Spec, store: Store, identity: Identity) -> Artifact | None:
    """The artifact of a key if it is there, whole, and made by source that the spec accepts.

    Raises:
        DataError: when it is there, made by other source, and the spec refuses that.
    """
    found = usable(store, identity)
    changed = drift(spec.stage, found.record.made["source"]) if found else []
    if not changed or spec.on_drift == "rerun":
        return None if changed else found
    words = f"{spec.stage}: its artifact was made by other source; changed since: {told(changed)}"
    if spec.on_drift == "fail":
        raise DataError(
            words,
            subject=told(changed),
            next_step=f"raise VERSION in tasks/{spec.stage}/stage.py, or make it again with --force {spec.stage}",
        )
    say(f"warning: {words}; if it would now make something else, raise VERSION in tasks/{spec.stage}/stage.py")
    return found


def usable(store: Store, identity: Identity) -> Artifact | None:
    """The artifact of a key if it is there and whole."""
    found = newest(store, store.artifact(identity.stage, identity.key))
    if found is not None and (lost := altered(found)):
        say(f"{identity.stage}: made again, because {', '.join(lost)}")
        return None
    return found


def cached_outcome(found: Artifact, started: float) -> Outcome:
    """An outcome that was there before."""
    record = found.record
    reason = f"cached: made {record.made['at']} from the same code version, knobs and inputs; --force makes it again"
    say(f"{record.identity.stage}: {reason}")
    return outcome_of(found, cached=True, reason=reason, started=started)


def outcome_of(artifact: Artifact, *, cached: bool, reason: str, started: float) -> Outcome:
    record = artifact.record
    return Outcome(
        stage=record.identity.stage,
        uri=artifact.uri,
        cached=cached,
        reason=reason,
        result=record.result,
        content_digest=record.content_digest,
        seconds=round(time.monotonic() - started, 2),
        mlflow_run_id=record.made["mlflow_run_id"],
        mlflow_url=record.made["mlflow_url"],
    )


def make(job: Job, lease: Lease) -> Outcome:
    """Run the stage in an attempt of its own, publish it, and clean up whatever happens."""
    spec, store, identity = job.spec, job.store, job.identity
    reason = "because it was forced" if spec.force else why(store, identity)
    say(f"{spec.stage}: runs {reason}")
    before = newest(store, store.artifact(identity.stage, identity.key))
    with (
        attempting(store, identity.stage, identity.key, spec.inputs.values()) as attempt,
        tracked(spec, job.config, identity) as (tracker, measured),
    ):
        with PeakMemory() as memory:
            result = run_in_workspace(job, lease, attempt)
        record = describe(job, attempt, result)
        record = replace(
            record,
            measured={**measured.values, **cost_of_run(job, memory.bytes)},
            made={**provenance.describe(spec.stage), "mlflow_run_id": tracker.run_id, "mlflow_url": tracker.url},
        )
        tracker.result(record.result)
        lease.check()
        found = publish(store, record, after=before.number if before else 0, adopt=not spec.fresh)
    shutil.rmtree(store.workspace(identity.stage, identity.key), ignore_errors=True)
    if found.record.attempt != record.attempt:
        reason = "another run published the same artifact first; its artifact was taken"
    say(f"{spec.stage}: done in {time.monotonic() - job.started_s:.1f} s -> {found.uri}")
    return outcome_of(found, cached=False, reason=reason, started=job.started_s)


def cost_of_run(job: Job, peak_memory_bytes: int) -> dict[str, Any]:
    """What estimates of later runs are made from."""
    outside_bytes = stage.outside_bytes(job.spec.stage, job.config)
    input_bytes = sum(one.size_bytes for one in job.inputs.values()) + outside_bytes
    return {
        "seconds": round(time.monotonic() - job.started_s, 2),
        "peak_memory_bytes": peak_memory_bytes,
        "work": work_of(job.config, input_bytes),
    }


def describe(job: Job, attempt: UPath, result: Any) -> Record:
    """The record of an attempt that is complete and durable."""
    job.store.make_durable(attempt)
    files = files_of(attempt)
    return Record(
        identity=job.identity,
        attempt=attempt.name,
        content_digest=content_digest(attempt, files),
        files=files,
        result=numbers_of(result),
        config=plain(job.config),
        inputs=dict(job.spec.inputs),
    )


def run_in_workspace(job: Job, lease: Lease, attempt: UPath) -> Any:
    """Call the stage with the paths of its inputs; its workspace is the one of its key."""
    module = stage.load(job.spec.stage)
    folder = job.store.workspace(job.identity.stage, job.identity.key)
    if job.spec.force:
        begin_again(folder, job.spec.run.run_id)
    with workspace.bound(folder, lease):
        return module.run(job.config, **{name: one.path for name, one in job.inputs.items()}, out=attempt)


def begin_again(folder: Path, run_id: str) -> None:
    """Empty the workspace of a forced stage, unless this very run forced it before: a retry continues."""
    forced_by = folder / "forced_by.txt"
    if run_id and forced_by.is_file() and forced_by.read_text("utf-8") == run_id:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    forced_by.write_text(run_id, "utf-8")


@contextmanager
def tracked(spec: Spec, config: Config, identity: Identity) -> Iterator[tuple[Tracker, MeasuredSink]]:
    """Everybody who listens to the stage, for the time of a block; a failure is told to them too."""
    measured = MeasuredSink()
    with ExitStack() as stack:
        tracker = stack.enter_context(Tracker(spec.run, spec.stage, plain(config), {"headrace.key": identity.key}))
        console = stack.enter_context(ConsoleSink(spec.stage))
        stack.enter_context(events.listening(console, measured, tracker))
        yield tracker, measured


@contextmanager
def terminated_as_try_again() -> Iterator[None]:
    """Turn SIGTERM into :class:`TryAgain`, so that a stage's cleanup runs. For the main thread of a process."""

    def stop(signum: int, _frame: Any) -> None:
        raise TryAgain(f"stopped by {signal.Signals(signum).name}", next_step="run the same command; it continues")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def say(line: str) -> None:
    """One line for the person who watches."""
    print(line, file=sys.stderr, flush=True)


def explain_failure(error: BaseException, spec: Spec, command: str) -> list[str]:
    """The last five lines of a failed stage: what failed, why, on what, what to do, and how to see it again."""
    if isinstance(error, HeadraceError):
        cause, subject, next_step = str(error), error.subject, error.next_step
    else:
        cause, subject, next_step = f"{type(error).__name__}: {error}", "", ""
    given = subject or ", ".join(f"{name}={uri}" for name, uri in spec.inputs.items())
    next_step = next_step or "read the traceback above; this is a fault of the stage"
    return five_lines(stage=spec.stage, cause=cause, given=given, next_step=next_step, reproduce=command)
