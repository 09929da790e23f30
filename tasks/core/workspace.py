"""The folder a long stage keeps between attempts of the same key: checkpoints, the loss curve so far.

The runner binds it while it holds the key's lock, so one attempt at a time works in it, and removes it once the
artifact is published.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_folder: ContextVar[Path | None] = ContextVar("workspace", default=None)


@contextmanager
def bound(folder: Path) -> Iterator[None]:
    """Make ``folder`` the workspace of the stage that runs in this block."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def current() -> Path:
    """The workspace of the running stage; made on first use.

    Raises:
        RuntimeError: outside a stage.
    """
    folder = _folder.get()
    if folder is None:
        raise RuntimeError("no workspace is bound: a stage is run by tasks.core.runner, a test by workspace.bound()")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
