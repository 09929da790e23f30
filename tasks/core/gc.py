"""Garbage collection: what nobody can read any more, and what nobody needs any more.

* An attempt that no record names and that was silent for a day is removed, and so is what writers left that died.
* An artifact that cannot be reached from a root (a pin, a recent run, an alias of the registry, an attempt at work) is
  marked, and removed by a later pass, a day after, if the mark is still there: whoever uses an artifact takes the mark
  away. What an artifact was made from is reached with it.

"A day" is always told by the store's clock: the times it gives to files, compared with the time it gives to a file
that is written now. The clock of the machine that collects, or of one that trains, may be wrong by any amount.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from upath import UPath

from tasks.core import roots
from tasks.core.artifact import is_published, key_folders, name_of, names_of, newest
from tasks.core.attempt import inputs_at_work, last_sign, sign_of
from tasks.core.errors import TryAgain
from tasks.core.location import files_below, names_in
from tasks.core.store import COLLECTOR, UNREACHABLE, Leftover, Store

DAY_S = 24 * 3600.0
ATTEMPT, LEFTOVER, SWEPT, MARKED, REACHED = "attempt", "leftover", "swept", "marked", "reached again"


@dataclass(frozen=True)
class Finding:
    """One thing that a pass does, or would do."""

    kind: str
    """``attempt`` or ``leftover`` (removed), ``swept`` (a marked artifact, removed), ``marked`` or ``reached again``
    (mark removed)."""
    path: UPath
    size_bytes: int
    reason: str
    leftover: Leftover | None = None


def collect(store: Store, registered: Collection[str] | None, *, dry_run: bool = False) -> list[Finding]:
    """Do one pass and say what it did; a dry run says what it would do.

    ``registered`` are the URIs of artifacts in a model registry; None when it could not be asked, and then no
    artifact is marked or swept: a registered one keeps all that it was made from.

    Raises:
        TryAgain: another pass is at work on the store.
    """
    with the_only_one(store):
        now = store.now()
        found = [*silent_attempts(store, now), *leftovers(store, now)]
        if registered is not None:
            kept = reached(store, [*roots.roots(store), *names_of(registered), *at_work(store, now)])
            found += judged(store, kept, now)
        if dry_run:
            return found
        roots.forget_old_runs(store)
        return [one for one in found if carry_out(store, one)]


@contextmanager
def the_only_one(store: Store) -> Iterator[None]:
    """Keep other passes out of the store."""
    try:
        with store.alone(store.root / COLLECTOR):
            yield
    except BlockingIOError:
        raise TryAgain(f"another gc is at work on {store.root}", next_step="wait until it has ended") from None


def silent_attempts(store: Store, now: float) -> Iterator[Finding]:
    """Attempts that no record names and that gave no sign of life for a day."""
    for artifact in key_folders(store):
        for folder in store.attempts(artifact):
            silent_s = now - last_sign(store, folder)
            if silent_s >= DAY_S and not is_published(store, artifact, folder.name):
                yield Finding(
                    ATTEMPT, folder, size_of(folder), f"no record names it; silent for {silent_s / 3600:.0f} h"
                )


def leftovers(store: Store, now: float) -> Iterator[Finding]:
    """What writers that died left where no reader looks: files under private names, uploads that were never ended."""
    for one in store.leftovers():
        silent_s = now - one.began
        if silent_s >= DAY_S and not is_at_work(store, one.path, now):
            yield Finding(LEFTOVER, one.path, one.size_bytes, f"{one.kind}, begun {silent_s / 3600:.0f} h ago", one)


def is_at_work(store: Store, path: UPath, now: float) -> bool:
    """Whether a path lies in an artifact that is being made: an upload may take more than a day."""
    return any(
        inputs_at_work(store, store.root / name, since=now - DAY_S) is not None for name in names_of([str(path)])
    )


def at_work(store: Store, now: float) -> Iterator[str]:
    """``stage/key`` of all that is being made, and of what is read for it."""
    for artifact in key_folders(store):
        inputs = inputs_at_work(store, artifact, since=now - DAY_S)
        if inputs is not None:
            yield name_of(str(artifact))
            yield from names_of(inputs)


def reached(store: Store, names: Iterable[str]) -> set[str]:
    """The named artifacts and, step by step, all that they were made from."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            artifact = newest(store, store.root / name)
            todo += names_of(artifact.record.inputs.values()) if artifact else ()
    return found


def judged(store: Store, kept: Collection[str], now: float) -> Iterator[Finding]:
    """What is to be done with each artifact: mark it, sweep it, or take its mark away."""
    for artifact in key_folders(store):
        marked_s = age_of_mark(store, artifact, now)
        if name_of(str(artifact)) in kept:
            if marked_s is not None:
                yield Finding(REACHED, artifact, size_of(artifact), "its mark is taken away")
        elif marked_s is None and names_in(artifact):  # an object store may show a folder that nothing is in
            yield Finding(MARKED, artifact, size_of(artifact), "unreachable; swept by a gc in a day or later")
        elif marked_s is not None and marked_s >= DAY_S:
            yield Finding(SWEPT, artifact, size_of(artifact), f"unreachable; marked {marked_s / 3600:.0f} h ago")


def age_of_mark(store: Store, artifact: UPath, now: float) -> float | None:
    """For how many seconds an artifact has been marked; None when it is not."""
    try:
        return now - store.modified(artifact / UNREACHABLE)
    except FileNotFoundError:
        return None


def carry_out(store: Store, finding: Finding) -> bool:
    """Do what was found; says whether it was done, as somebody may use the artifact by now."""
    if finding.kind == MARKED:
        store.create(finding.path / UNREACHABLE, b"")
    elif finding.kind == REACHED:
        store.in_use(finding.path)
    elif finding.kind == SWEPT:
        return store.sweep(finding.path)
    elif finding.leftover is not None:
        store.remove_leftover(finding.leftover)
    else:
        return remove_attempt(store, finding.path)
    return True


def remove_attempt(store: Store, folder: UPath) -> bool:
    """Remove an attempt, unless its key is worked on after all or it was published meanwhile."""
    artifact = folder.parent
    try:
        with store.alone(artifact):
            if is_published(store, artifact, folder.name):
                return False
            store.discard(folder)
            sign_of(folder).unlink(missing_ok=True)
            return True
    except BlockingIOError:
        return False


def size_of(folder: UPath) -> int:
    """Bytes of all files below a folder; one that goes meanwhile counts nothing."""
    return sum(files_below(folder).values())
