"""One server of the tests: in a session of its own, watched until it is ready, ended without remains."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

READY_S = 120
"""How long a start may take. It takes seconds; a machine under load is no reason to fail."""
ENDS_WITH_ITS_PARENT = 'exec 3<&0; { cat <&3 >/dev/null; kill -KILL 0; } & exec "$@" </dev/null 3<&-'
"""Runs a program beside a process that waits for the end of this one's stdin: even a killed test run leaves nothing."""


class StartError(Exception):
    """A server that did not start: what it lacks, or what it said last."""


class Daemon:
    """A program in a process group of its own, whose output is kept in a log."""

    def __init__(self, name: str, command: list[str], log: Path, environment: dict[str, str] | None = None) -> None:
        self.name = name
        self.command = command
        self.log = log
        self.environment = environment or {}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, unless it runs; it is not ready yet then."""
        if self.runs():
            return
        self.kill()
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", ENDS_WITH_ITS_PARENT, "sh", *self.command],
                env=os.environ | self.environment,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL: no goodbye, as when the machine fails."""
        self._end(signal.SIGKILL, 10)

    def stop(self) -> None:
        """SIGTERM, and after some seconds SIGKILL to whatever is left."""
        with suppress(subprocess.TimeoutExpired):
            self._end(signal.SIGTERM, 5)
        self.kill()

    def _end(self, number: signal.Signals, patience_s: float) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            self._process.wait(patience_s)
            if number == signal.SIGKILL:
                self._process.stdin.close()
                self._process = None

    def last_words(self) -> str:
        lines = self.log.read_text("utf-8", "replace").splitlines()[-40:]
        return "\n".join([f"the end of {self.log}:", *(f"  {line}" for line in lines)])


def wait_until_ready(ready: Callable[[], bool], daemons: list[Daemon], patience_s: float = READY_S) -> None:
    """Until ``ready``.

    Raises:
        StartError: with the last lines of its log, when a server ends before that or the time is over.
    """
    until = time.monotonic() + patience_s
    while not ready():
        if ended := [one for one in daemons if not one.runs()]:
            raise StartError(f"{ended[0].name} ended before it was ready\n{ended[0].last_words()}")
        if time.monotonic() > until:
            logs = "\n".join(one.last_words() for one in daemons)
            raise StartError(f"{', '.join(one.name for one in daemons)}: not ready after {patience_s:g} s\n{logs}")
        time.sleep(0.05)


def free_ports(count: int) -> list[int]:
    """Different ports that nobody uses, below those that the kernel gives to outgoing connections meanwhile."""
    with ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            port = random.SystemRandom().randrange(20_000, 32_000)
            with suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
                ports.append(port)
        return ports
