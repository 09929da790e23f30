"""The most memory that a stage and all processes it started held at one time."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

EVERY_S = 1.0
"""Reading the memory of a process costs about a millisecond."""


class PeakMemory:
    """Watches this process and its descendants while the block runs.

    Memory that processes share is counted once, divided among them (Linux's proportional set size). A peak of less
    than :data:`EVERY_S` may be missed.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            self.bytes = max(self.bytes, held_bytes())
            if self._done.wait(EVERY_S):
                self.bytes = max(self.bytes, held_bytes())
                return


def held_bytes() -> int:
    """Bytes this process and all its descendants hold now; a process that ends meanwhile counts as nothing."""
    import psutil  # type: ignore[import-untyped]

    me = psutil.Process()
    total = 0
    for process in [me, *me.children(recursive=True)]:
        try:
            total += process.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total
