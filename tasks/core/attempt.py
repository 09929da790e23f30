"""One attempt to make an artifact: it shows that it is alive, and leaves nothing behind unless it was published.

    <store>/<stage>/<key>/<attempt>/…        what it writes
    <store>/<stage>/<key>/<attempt>.alive    names what it reads; its modification time moves on every 15 s

The sign of life is for garbage collection on any machine, so only the store's clock is asked about it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from upath import UPath

from tasks.core.artifact import is_published
from tasks.core.heartbeat import beating
from tasks.core.location import names_in
from tasks.core.store import Store

ALIVE = ".alive"


@contextmanager
def attempting(store: Store, stage: str, key: str, inputs: Iterable[str]) -> Iterator[UPath]:
    """An empty folder to write in. It is removed when the block raises, unless a record names it by then: a signal
    may arrive between publishing and the end.

    ``inputs`` are the URIs of what is read meanwhile; garbage collection keeps it.
    """
    folder = store.new_attempt(stage, key)
    try:
        with alive(store, folder, inputs):
            yield folder
    except BaseException:
        if not is_published(store, store.artifact(stage, key), folder.name):
            store.discard(folder)
        raise


@contextmanager
def alive(store: Store, folder: UPath, inputs: Iterable[str]) -> Iterator[None]:
    """Give signs of life for the time of a block."""
    sign = sign_of(folder)
    store.create(sign, json.dumps({"inputs": list(inputs)}).encode())
    try:
        with beating(store, sign):
            yield
    finally:
        sign.unlink(missing_ok=True)


def sign_of(folder: UPath) -> UPath:
    """The file whose modification time says when an attempt was last alive."""
    return folder.with_name(folder.name + ALIVE)


def last_sign(store: Store, folder: UPath) -> float:
    """When an attempt was last alive, in seconds of the store's clock: when it began, if it gave no sign at all.

    Infinity for one that is gone: it ended just now.
    """
    for path in (sign_of(folder), folder):
        with suppress(FileNotFoundError):
            return store.modified(path)
    return math.inf


def inputs_at_work(store: Store, artifact: UPath, since: float) -> list[str] | None:
    """URIs of all that attempts at work on a key read; None when no attempt gave a sign since then."""
    found: list[str] | None = None
    for sign in [artifact / name for name in names_in(artifact) if name.endswith(ALIVE)]:
        try:
            if store.modified(sign) >= since:
                found = [*(found or []), *json.loads(sign.read_text("utf-8"))["inputs"]]
        except FileNotFoundError:  # it ended just now
            continue
    return found
