"""Who listens to a stage on this side: the console, and the values that the record keeps."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
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


@dataclass
class Count:
    """One count of a stage while it goes on. A stage that begins another count of the same unit begins at less."""

    began_s: float
    first: float
    """Where it stood when it was first told: a resumed training does not begin at nothing."""
    said_s: float
    done: float = 0.0


class ConsoleSink:
    """A progress bar on a terminal, else one line every ten seconds; notes as they come."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.console = Console(stderr=True)
        self.bar: Progress | None = None
        self.bars: dict[str, TaskID] = {}
        self.counts: dict[str, Count] = {}
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
        count = self.counts.get(unit)
        if count is None or done < count.done:
            count = self.counts[unit] = Count(now, done, said_s=now)
        count.done = done
        if self.bar:
            task = self.bars.get(unit)
            if task is None:
                task = self.bars[unit] = self.bar.add_task(f"{self.stage} {unit}", total=total)
            self.bar.update(task, completed=done, total=total)
        elif now - count.said_s >= LOG_EVERY_S:
            count.said_s = now
            self._line(progress_line(done, total, unit, (done - count.first) / (now - count.began_s)))

    def _line(self, text: str) -> None:
        if self.bar:
            self.bar.console.print(f"{self.stage}: {text}", markup=False, highlight=False)
        else:
            print(f"{self.stage}: {text}", file=sys.stderr, flush=True)


def _most_first(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def progress_line(done: float, total: float | None, unit: str, rate: float) -> str:
    """How far, how fast, and how long it will take: ``1,200 of 4,000 steps (30%), 12/s, ETA 233 s``."""
    if total is None:
        return f"{done:,.0f} {unit}, {rate:,.1f}/s"
    left = f", ETA {(total - done) / rate:,.0f} s" if rate > 0 else ""
    return f"{done:,.0f} of {total:,.0f} {unit} ({100 * done / max(total, 1):.0f}%), {rate:,.1f}/s{left}"
