"""Who listens to a stage on this side: the console, and the values that the record keeps."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

LOG_EVERY_S = 10.0
"""Without a terminal, one progress line in this time."""


class MeasuredSink:
    """Keeps the last value of each metric, for the record's ``measured``."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def metric(self, name: str, value: float, step: int | None) -> None:
        self.values[name] = value

    def progress(self, done: float, total: float | None, unit: str) -> None: ...
    def drop(self, reason: str, count: int) -> None: ...
    def sample(self, name: str, text: str) -> None: ...
    def note(self, message: str) -> None: ...


class ConsoleSink:
    """A progress bar on a terminal, else one line every ten seconds; notes as they come."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.console = Console(stderr=True)
        self.bar: Progress | None = None
        self.bars: dict[str, TaskID] = {}
        self.began: dict[str, float] = {}
        self.said: dict[str, float] = {}
        self.drops: dict[str, int] = {}

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("ETA"))
            self.bar = Progress(*columns, TimeRemainingColumn(), console=self.console, transient=True)
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar:
            self.bar.stop()
        if self.drops:
            taken = ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.drops.items(), key=_most_first))
            self._line(f"dropped {taken}")

    def metric(self, name: str, value: float, step: int | None) -> None: ...

    def sample(self, name: str, text: str) -> None: ...

    def drop(self, reason: str, count: int) -> None:
        self.drops[reason] = self.drops.get(reason, 0) + count

    def note(self, message: str) -> None:
        self._line(message)

    def progress(self, done: float, total: float | None, unit: str) -> None:
        now = time.monotonic()
        began = self.began.setdefault(unit, now)
        if self.bar:
            task = self.bars.get(unit)
            if task is None:
                task = self.bars[unit] = self.bar.add_task(f"{self.stage} {unit}", total=total)
            self.bar.update(task, completed=done, total=total)
        elif now - self.said.get(unit, began) >= LOG_EVERY_S:
            self.said[unit] = now
            self._line(progress_line(done, total, unit, now - began))

    def _line(self, text: str) -> None:
        if self.bar:
            self.bar.console.print(f"{self.stage}: {text}", markup=False, highlight=False)
        else:
            print(f"{self.stage}: {text}", file=sys.stderr, flush=True)


def _most_first(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def progress_line(done: float, total: float | None, unit: str, elapsed_s: float) -> str:
    """How far, how fast, and how long it will take: ``1,200 of 4,000 steps (30%), 12/s, ETA 233 s``."""
    rate = done / elapsed_s if elapsed_s > 0 else 0.0
    if total is None:
        return f"{done:,.0f} {unit}, {rate:,.1f}/s"
    left = f", ETA {(total - done) / rate:,.0f} s" if rate > 0 else ""
    return f"{done:,.0f} of {total:,.0f} {unit} ({100 * done / max(total, 1):.0f}%), {rate:,.1f}/s{left}"
