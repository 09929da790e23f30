"""A packaged service in processes of its own: imported, started, and gone for certain afterwards."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from tasks.core.errors import DataError, HeadraceError, ServiceError

HOST = "127.0.0.1"
IMPORT_TIMEOUT_S = 120
TERM_GRACE_S = 10.0
KILL_GRACE_S = 5.0
POLL_S = 0.1
LOG_LINES = 20


@contextmanager
def serving(bento: Path, tag: str, *, start_timeout_s: float) -> Iterator[str]:
    """Serve a ``.bento`` file for the duration of a block; yields its base URL.

    The service has a BENTOML_HOME, a working folder and a session of its own. When the block ends, however it ends,
    every process of the service is stopped, and that none is left is verified.

    Raises:
        DataError: the file cannot be imported.
        ServiceError: the service did not become ready in time, or ended; with the last lines of its log.
        HeadraceError: a process could not be stopped.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-smoke-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        home = folder / "home"
        environment = environment_with(home)
        import_bento(bento, folder, environment)
        port = free_port()
        command = [sys.executable, "-m", "bentoml", "serve", tag, "--host", HOST, "--port", str(port)]
        log = folder / "service.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=output, stderr=output, start_new_session=True
            )
        try:
            url = f"http://{HOST}:{port}"
            wait_until_ready(process, url, log, start_timeout_s)
            yield url
        finally:
            stop(process, home)


def environment_with(home: Path) -> dict[str, str]:
    """The environment of the service: nothing of this project's source, nothing kept between runs."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    home.mkdir()
    return {**inherited, "BENTOML_HOME": str(home), "BENTOML_DO_NOT_TRACK": "True"}


def import_bento(bento: Path, folder: Path, environment: dict[str, str]) -> None:
    """Import a ``.bento`` file into the home of the environment."""
    done = subprocess.run(
        [sys.executable, "-m", "bentoml", "import", str(bento.absolute())],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=IMPORT_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        said = last_lines(done.stdout + done.stderr)
        raise DataError(f"bentoml cannot import it:\n{said}", subject=str(bento), next_step="run package again")


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


def wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path, timeout_s: float) -> None:
    """Wait for ``/readyz``; bounded, and over at once when the service ends."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise not_ready(f"the service ended with {process.returncode} before it was ready", log)
        with suppress(httpx.TransportError):
            if httpx.get(f"{url}/readyz", timeout=2.0).status_code == 200:
                return
        time.sleep(POLL_S)
    raise not_ready(f"the service was not ready within {timeout_s:g} s", log)


def not_ready(what: str, log: Path) -> ServiceError:
    said = last_lines(log.read_text("utf-8", "replace"))
    return ServiceError(f"{what}; it said:\n{said}", next_step="read its lines above; is the machine overloaded?")


def last_lines(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-LOG_LINES:])


def stop(process: subprocess.Popen[bytes], home: Path) -> None:
    """End every process of the service: ask the first to end the others, then kill what is left.

    Raises:
        HeadraceError: when one is left even so.
    """
    process.terminate()
    if gone(process, home, TERM_GRACE_S):
        return
    deadline = time.monotonic() + KILL_GRACE_S
    while time.monotonic() < deadline:
        process.kill()  # by name too: it may have renamed itself, which overwrites the environment that /proc shows
        for one in processes_of(home):  # again and again: one that is killed late may have started another
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        if gone(process, home, POLL_S):
            return
    left = ", ".join(map(str, processes_of(home)))
    raise HeadraceError(f"processes of the service are still there: {left}", next_step=f"kill -9 {left}")


def gone(process: subprocess.Popen[bytes], home: Path, timeout_s: float) -> bool:
    """Wait until no process of the service is left; whether that came about in time."""
    deadline = time.monotonic() + timeout_s
    while process.poll() is None or processes_of(home):
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S)
    return True


def processes_of(home: Path) -> list[int]:
    """Ids of all running processes whose BENTOML_HOME is ``home``.

    The service's first process starts workers in sessions of their own, and one whose parent was killed belongs to
    init: only the environment, which each inherits, still says whose they are.
    """
    mark, found = f"BENTOML_HOME={home}".encode(), []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
    return found
