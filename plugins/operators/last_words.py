"""The five lines that a failed task says last: stage, cause, input, next step, how to reproduce it.

Airflow logs a traceback of its own and its group markers after whatever an operator says. An exit handler speaks after
all that: a task's process runs the handlers that were registered in it before it ends, and so does ``airflow dags
test``, where the whole run is one process and the five lines become the last of the command.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Sequence
from functools import cache

from tasks.core.errors import FIVE_LINES

_words: dict[str, list[str]] = {}


def are_words(lines: Sequence[str]) -> bool:
    """Whether these are the five lines, as a stage prints them when it fails."""
    return [line.partition(": ")[0] for line in lines] == list(FIVE_LINES)


def keep(task_id: str, lines: list[str]) -> None:
    """Say these lines when the process ends."""
    forget(task_id)
    _words[task_id] = lines
    _register()


def forget(task_id: str) -> None:
    """A task that is tried again, or that succeeded, has no last words."""
    _words.pop(task_id, None)


@cache
def _register() -> None:
    atexit.register(speak)


def speak() -> None:
    """Write the last words of every task that failed in this process, the latest last, to where Airflow logs."""
    for lines in _words.values():
        sys.stdout.write("\n".join([*lines, ""]))
    sys.stdout.flush()
