"""What a stage says while it works. The stage knows nobody who listens; the runner binds the sinks.

events.progress(300, 1000, "documents")        how far the work is
events.metric("train/loss", 3.2, step=100)    a number on a step axis
events.drop("too_short", 12)                  how many documents a rule took
events.sample("dropped/too_short", "text …")  an example worth looking at
events.note("built in 12 s")                  a line for the log
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Sink(Protocol):
    """Somebody who listens. A sink never raises into the stage."""

    def metric(self, name: str, value: float, step: int | None) -> None: ...
    def progress(self, done: float, total: float | None, unit: str) -> None: ...
    def drop(self, reason: str, count: int) -> None: ...
    def sample(self, name: str, text: str) -> None: ...
    def note(self, message: str) -> None: ...


_sinks: ContextVar[tuple[Sink, ...]] = ContextVar("sinks", default=())


@contextmanager
def listening(*sinks: Sink) -> Iterator[None]:
    """Bind sinks for the duration of a block."""
    token = _sinks.set(sinks)
    try:
        yield
    finally:
        _sinks.reset(token)


def metric(name: str, value: float, step: int | None = None) -> None:
    """Report one number; ``step`` is the position on its own axis (for training, the optimizer step)."""
    for sink in _sinks.get():
        sink.metric(name, float(value), step)


def progress(done: float, total: float | None, unit: str) -> None:
    """Report how far the work is, in ``unit``; ``total`` is None when it is not known."""
    for sink in _sinks.get():
        sink.progress(done, total, unit)


def drop(reason: str, count: int = 1) -> None:
    """Report that ``count`` documents were taken out for ``reason``."""
    for sink in _sinks.get():
        sink.drop(reason, count)


def sample(name: str, text: str) -> None:
    """Show an example: a dropped text, a generated one."""
    for sink in _sinks.get():
        sink.sample(name, text)


def note(message: str) -> None:
    """Say one line that a person who watches would want to read."""
    for sink in _sinks.get():
        sink.note(message)
