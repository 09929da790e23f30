"""Builds the C++ extension that DeepSpeed loads on CPUs, once, before anything waits for it.

``python -m tasks.training.extension`` is a step of the set-up. DeepSpeed would compile ``deepspeed_shm_comm`` in the
middle of the first training, mute, for up to two minutes; and a process killed while it compiles leaves a lock file
at which every later one waits for ever. Here the build has a name and a clock, and a lock that dies with its owner.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import IO

from tasks.core import events
from tasks.core.errors import HeadraceError, ServiceError
from tasks.core.sinks import ConsoleSink
from tasks.core.store import VAR

NAME = "deepspeed_shm_comm"
BUILT = "built"
"""Empty file that says the build came to its end; the library alone may be half of one."""
USUAL_S = (26, 120)
"""Shortest and longest build measured, on an idle and a busy machine of two cores."""
SAY_EVERY_S = 5.0
POLL_S = 0.25
BUILD = "from deepspeed.ops.op_builder.cpu.comm import ShareMemCommBuilder as B; B().load(verbose=True)"


def ensure_built() -> Path:
    """Build the extension unless it is there; returns the library. Instant when there is nothing to do.

    Raises:
        ServiceError: the compiler or Python's headers are missing, or the build failed.
    """
    folder = cache_folder() / NAME
    library = folder / f"{NAME}.so"
    if (folder / BUILT).is_file():
        return library
    if missing := missing_tools():
        raise ServiceError(
            f"DeepSpeed's extension {NAME} cannot be compiled: {' and '.join(missing)} missing",
            subject=NAME,
            next_step=f"apt-get install g++ python{sysconfig.get_python_version()}-dev (or your system's packages)",
        )
    folder.mkdir(parents=True, exist_ok=True)
    with owned(folder) as owner:
        if not (folder / BUILT).is_file():
            (folder / "lock").unlink(missing_ok=True)
            compile_into(folder, owner)
    return library


def cache_folder() -> Path:
    """Where extensions for exactly this Python, torch, DeepSpeed and kind of CPU are kept.

    Under ``TORCH_EXTENSIONS_DIR``, else under ``var/``. The CPU is in the name because DeepSpeed compiles with
    ``-march=native``: on a shared disk another machine's library would end in an illegal instruction.
    """
    base = Path(os.environ.get("TORCH_EXTENSIONS_DIR") or VAR / "torch_extensions")
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    name = f"{python}-torch-{version('torch')}-deepspeed-{version('deepspeed')}-{cpu_digest()}"
    return base if base.name == name else base / name


def cpu_digest(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Eight hexadecimal digits that differ between kinds of CPU; the machine's name where the system tells no more."""
    kind = os.uname().machine
    if cpuinfo.is_file():
        lines = cpuinfo.read_text("ascii", "replace").splitlines()
        told = {line for line in lines if line.startswith(("flags", "Features", "model name", "CPU part"))}
        kind += "".join(sorted(told))
    return hashlib.sha256(kind.encode()).hexdigest()[:8]


def missing_tools() -> list[str]:
    """What a build needs and this machine lacks, as a person would name it."""
    missing = []
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        missing.append(f"the compiler {compiler} is")
    headers = Path(sysconfig.get_paths()["include"])
    if not (headers / "Python.h").is_file():
        missing.append(f"Python's headers ({headers}/Python.h) are")
    return missing


@contextmanager
def owned(folder: Path) -> Iterator[IO[str]]:
    """Hold the folder alone; the lock ends with the last process that inherited it, compilers too."""
    with (folder / "owner").open("w") as file:
        started = said = time.monotonic()
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                now = time.monotonic()
                if now - said >= SAY_EVERY_S:
                    said = now
                    events.note(f"waiting for another process that compiles {NAME}: {now - started:.0f} s")
                time.sleep(POLL_S)
        yield file


def compile_into(folder: Path, owner: IO[str]) -> None:
    """Compile in a process of its own and tell how long it has taken.

    Raises:
        ServiceError: with the last lines of the compiler.
    """
    log = folder / "build.log"
    started = said = time.monotonic()
    events.note(f"compiling DeepSpeed's {NAME} (once; usually {USUAL_S[0]} to {USUAL_S[1]} s)")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", BUILD],
            env=build_environment(folder.parent),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[owner.fileno()],
        )
        try:
            while process.poll() is None:
                time.sleep(POLL_S)
                now = time.monotonic()
                if now - said >= SAY_EVERY_S:
                    said = now
                    events.note(waiting_line(now - started))
        finally:
            process.kill()
            process.wait()
    if process.returncode != 0:
        tail = "\n".join(log.read_text("utf-8", "replace").splitlines()[-15:])
        raise ServiceError(f"compiling {NAME} failed:\n{tail}", subject=str(log), next_step="read the whole log")
    (folder / BUILT).touch()
    events.note(f"compiled {NAME} in {time.monotonic() - started:.0f} s")


def waiting_line(elapsed_s: float) -> str:
    """How long it has taken and will take at most, from the builds measured."""
    left = max(0.0, USUAL_S[1] - elapsed_s)
    return (
        f"compiling {NAME}: {elapsed_s:.0f} s, ETA at most {left:.0f} s"
        if left
        else (f"compiling {NAME}: {elapsed_s:.0f} s, longer than the usual {USUAL_S[1]} s")
    )


def build_environment(cache: Path) -> dict[str, str]:
    """Variables for the build: CPU only, our cache, and ninja from the environment of this Python."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {**os.environ, "PATH": path, "DS_ACCELERATOR": "cpu", "TORCH_EXTENSIONS_DIR": str(cache)}


def main() -> int:
    """Set-up step: build, or say what lacks."""
    with ConsoleSink("extension") as console, events.listening(console):
        try:
            ensure_built()
        except HeadraceError as error:
            sys.stderr.write(f"error: {error}\nnext step: {error.next_step}\n")
            return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
