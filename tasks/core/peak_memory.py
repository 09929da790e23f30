"""The most memory that a stage and all processes it started held at one time."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

EVERY_S = 1.0
"""Reading the memory of a process costs about a millisecond."""


class PeakMemory:
    """Watches this process and its descendants while the block runs.

    Memory that processes share is counted once, divided among them (Linux's proportional set size), and looked at
    every :data:`EVERY_S`. A shorter peak of a process that was started may be missed; one of this process is not,
    since the kernel remembers it (its resident set).
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        forget_own_peak()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        self.bytes = max(self.bytes, own_peak_bytes())

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


def forget_own_peak() -> None:
    """Let the kernel count this process's peak from now on; where that is not allowed, an earlier one counts too."""
    with suppress(OSError), Path("/proc/self/clear_refs").open("w", encoding="ascii") as switches:
        switches.write("5")


def own_peak_bytes() -> int:
    """The largest resident set of this process. (``getrusage`` would tell that of the process that started it, when
    that one was larger.)
    """
    with Path("/proc/self/status").open(encoding="ascii") as status:
        kilobytes = next(line.split()[1] for line in status if line.startswith("VmHWM:"))
    return 1024 * int(kilobytes)
