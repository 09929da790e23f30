"""The loss curve: a file of JSON lines that grows while the training runs and continues over restarts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def read_curve(path: Path) -> list[Line]:
    """All whole lines of a curve; a last line that a killed process left half-written is left out."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def cut_curve(path: Path, last_step: int) -> None:
    """Forget what came after ``last_step``, because a run resumed there will write it again."""
    kept = [line for line in read_curve(path) if line["step"] <= last_step]
    private = path.with_name(f".{path.name}")
    private.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
    private.replace(path)


@dataclass
class CurveWriter:
    """Appends to a curve."""

    path: Path

    def append(self, line: Line) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def sync(self) -> None:
        """Make the curve durable; called before a checkpoint that continues it."""
        with self.path.open("a", encoding="utf-8") as file:
            os.fsync(file.fileno())


@dataclass
class CurveReader:
    """Reads lines as they arrive."""

    path: Path
    _offset: int = field(default=0)

    def skip(self) -> None:
        """Leave out what is there already."""
        self._offset = self.path.stat().st_size if self.path.is_file() else 0

    def new_lines(self) -> Iterator[Line]:
        """Whole lines that arrived since the last call."""
        if not self.path.is_file():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                yield json.loads(line)
