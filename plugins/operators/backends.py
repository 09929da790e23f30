"""Where a stage's command runs. That is a matter of deployment, so it is configured and no DAG mentions it.

In ``airflow.cfg`` (or ``AIRFLOW__HEADRACE__…`` in the environment)::

    [headrace]
    backend = local
    train_backend = local
    grace_s = 60
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from airflow.sdk.configuration import conf

from tasks.core.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds ``tasks`` and ``plugins``."""
REAPER = Path(__file__).with_name("reaper.py")
SECTION = "headrace"
GRACE_S = 60.0
"""Enough for a checkpoint of a few gigabytes on a local disk; raise it for larger models or slower stores."""


OF_AIRFLOW = ("AIRFLOW__", "__AIRFLOW", "AIRFLOW_CONN_", "AIRFLOW_VAR_")
"""How the names of Airflow's settings, Connections and Variables begin in the environment."""


class Job(Protocol):
    """One command that was started somewhere."""

    def lines(self) -> Iterator[str]:
        """What the command says, line by line as it comes, until it and all it started have ended."""

    def stop(self) -> None:
        """Have the command stopped. Returns at once: the backend sees to the rest."""

    def exit_code(self) -> int:
        """The command's exit code; 128 + n when signal n ended it."""


Backend = Callable[[list[str], str, Mapping[str, str]], Job]
"""Starts ``python -m tasks <arguments>`` with a text on its standard input and additions to its environment."""


class LocalJob:
    """A command on this machine, under the reaper."""

    def __init__(self, arguments: list[str], stdin: str, environment: Mapping[str, str]) -> None:
        watched, self._lifeline = os.pipe()
        grace_s = conf.getfloat(SECTION, "grace_s", fallback=GRACE_S)
        reaper = [sys.executable, "-I", str(REAPER), "--lifeline", str(watched), "--grace-s", str(grace_s), "--"]
        self._process = subprocess.Popen(
            [*reaper, sys.executable, "-m", "tasks", *arguments],
            cwd=ROOT,
            env=local_environment(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[watched],
            start_new_session=True,
        )
        os.close(watched)
        self._send(stdin)

    def _send(self, text: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode("utf-8"))
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # the command ended without reading it; its output says why

    def lines(self) -> Iterator[str]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield line.decode("utf-8", "replace").rstrip("\r\n")

    def stop(self) -> None:
        lifeline, self._lifeline = self._lifeline, -1  # first forgotten: a signal may bring us here twice
        if lifeline >= 0:
            os.close(lifeline)

    def exit_code(self) -> int:
        code = self._process.wait()
        self.stop()
        return code if code >= 0 else 128 - code


def local_environment(additions: Mapping[str, str]) -> dict[str, str]:
    """Our environment without Airflow's settings (they hold secrets, and a stage knows no Airflow)."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OF_AIRFLOW)}
    return {**kept, "PYTHONUNBUFFERED": "1", **additions}


BACKENDS: dict[str, Backend] = {"local": LocalJob}
"""Known backends by the name they are configured with."""


def backend_for(stage: str) -> Backend:
    """The backend configured for a stage.

    Raises:
        ConfigError: when the configured name is not known.
    """
    default = conf.get(SECTION, "backend", fallback="local")
    name = conf.get(SECTION, f"{stage}_backend", fallback=default)
    if name not in BACKENDS:
        raise ConfigError(
            f"no such backend: {name!r}",
            [f"known: {', '.join(sorted(BACKENDS))}"],
            next_step=f"set [{SECTION}] backend or {stage}_backend in airflow.cfg to a known one",
        )
    return BACKENDS[name]
