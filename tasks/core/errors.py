"""Every error a stage raises on purpose, and the exit code a caller acts on.

    HeadraceError               1   a fault of ours
    ├── ConfigError             2   a knob, a name or a file of the pipeline is wrong; nothing ran
    ├── DataError               3   the data is not what the stage needs
    │   ├── GateError           3   a number is outside its band; the artifact was refused
    │   └── NothingNew          3   no new data has come; a scheduled run has nothing to do
    ├── ServiceError            4   a service, a disk or a program is missing; trying later may help
    └── TryAgain               75   interrupted or overtaken; the same command will continue

Only 4 and 75 are worth a retry. A message says what, where and what was given; ``next_step`` says what
to do about it.
"""

from __future__ import annotations

FIVE_LINES = ("stage", "cause", "input", "next step", "reproduce")
"""What a failed stage says last, each on a line of its own."""


class HeadraceError(Exception):
    """Base of all errors raised on purpose; anything else that escapes is a bug and exits with 1."""

    exit_code = 1
    retry = False

    def __init__(self, message: str, *, next_step: str = "", subject: str = "") -> None:
        super().__init__(message)
        self.next_step = next_step
        self.subject = subject
        """The input, file or knob at fault, as a person would name it."""


class ConfigError(HeadraceError):
    """The configuration cannot be used. Collects all problems of one file or stage at once."""

    exit_code = 2

    def __init__(self, title: str, problems: list[str] | None = None, *, next_step: str = "") -> None:
        self.title = title
        self.problems = problems or []
        lines = [f"{title}:", *(f"  {problem}" for problem in self.problems)] if self.problems else [title]
        super().__init__("\n".join(lines), next_step=next_step or "correct the knobs named above")


class DataError(HeadraceError):
    """The data cannot be used as it is."""

    exit_code = 3


class GateError(DataError):
    """A measured number is outside the band the configuration allows."""


class NothingNew(DataError):  # noqa: N818 (not a fault: it says that there is nothing to do)
    """What a scheduled run would read or learn from has not come: its task and those after it are skipped."""


class ServiceError(HeadraceError):
    """Something outside the process is missing or full: a server, a disk, a program."""

    exit_code = 4
    retry = True


class TryAgain(HeadraceError):  # noqa: N818 (it is an instruction, as EX_TEMPFAIL is)
    """The work was interrupted and can be continued by the same command (``EX_TEMPFAIL`` of sysexits.h)."""

    exit_code = 75
    retry = True


def five_lines(*, stage: str, cause: str, given: str, next_step: str, reproduce: str) -> list[str]:
    """What failed, why, on what, what to do, and how to see it again; each text is brought onto one line."""
    texts = (stage, cause, given or "none", next_step, reproduce)
    return [
        f"{name}: {' · '.join(line.strip() for line in text.splitlines())}"
        for name, text in zip(FIVE_LINES, texts, strict=True)
    ]
