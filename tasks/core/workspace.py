"""The folder a long stage keeps between attempts of the same key: checkpoints, the loss curve so far.

The runner binds it while it holds the key's lease, so one attempt at a time works in it, and removes it once the
artifact is published. Processes that the stage starts bind it too, with the lease they were told: they may outlive the
stage, and must not write into what is another's by then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from tasks.core.lease import Lease

_folder: ContextVar[Path | None] = ContextVar("workspace", default=None)
_lease: ContextVar[Lease | None] = ContextVar("lease", default=None)


@contextmanager
def bound(folder: Path, lease: Lease | None = None) -> Iterator[None]:
    """Make ``folder`` the workspace of the stage that runs in this block; without a lease nobody else wants it."""
    tokens = _folder.set(folder), _lease.set(lease)
    try:
        yield
    finally:
        _folder.reset(tokens[0])
        _lease.reset(tokens[1])


def lease() -> Lease | None:
    """The lease under which the workspace is used; None when it is nobody else's."""
    return _lease.get()


def check_lease() -> None:
    """Ask, before a checkpoint is written, whether the workspace is still this run's.

    Raises:
        TryAgain: another run has taken it.
    """
    if (held := _lease.get()) is not None:
        held.check()


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
