"""Run one command so that nothing of it outlives the one who asked for it.

    python reaper.py --lifeline FD --grace-s 60 -- COMMAND…

Airflow allows a task five seconds after *clear* or *mark failed*, then kills its process group. Training needs longer
to write a checkpoint, torchrun puts its workers into sessions of their own, and a killed operator can tell nobody
anything. So the operator starts this process, in a session of its own, and holds the writing end of a pipe, the
*lifeline*. The kernel closes it however the operator ends. Then, or at SIGTERM, the reaper

1. sends SIGTERM to the command and waits for it, at most the grace period;
2. gives what the command left behind a moment, sends it SIGTERM, and waits for the rest of the period;
3. kills every descendant there still is, whatever its session or group.

It relays the command's output and, when nobody reads any more, throws it away: a stage that is writing its last
checkpoint must not die of a closed pipe. It *handles* SIGTERM; an ignored signal would be inherited through exec.

Standard input goes to the command untouched. The exit code is the command's, 128 + n when signal n ended it.
Only the standard library, nothing of this project: it starts in a few hundredths of a second and has little to fail.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
"""Options of prctl(2), from <linux/prctl.h>."""
LEFTOVER_S = 5.0
"""How long what a command left behind has to end by itself (a tracking process writes its last lines) before it is
asked to, and again before it is killed."""
DRAIN_S = 5.0
"""How long the last output may take to reach the reader."""
CHUNK_BYTES = 65536

libc = ctypes.CDLL(None, use_errno=True)


class Reaper:
    """One command, its descendants and its end."""

    def __init__(self, command: list[str], *, lifeline: int, grace_s: float) -> None:
        self.lifeline = lifeline
        self.grace_s = grace_s
        self.exit_code: int | None = None
        self.asked_to_stop = False
        self.wakeup = open_wakeup(self.on_sigterm)
        if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
        close_stdin()
        assert self.process.stdout is not None
        self.relay = threading.Thread(target=relay_output, args=(self.process.stdout.fileno(),), daemon=True)
        self.relay.start()

    def on_sigterm(self, _signal: int, _frame: FrameType | None) -> None:
        self.asked_to_stop = True

    def run(self) -> int:
        """Wait for the command or for the word to stop; leave no descendant; give the exit code."""
        self.wait_until(lambda: self.exit_code is not None or self.asked_to_stop, deadline=None)
        deadline = time.monotonic() + (self.grace_s if self.asked_to_stop else 2 * LEFTOVER_S)
        if self.exit_code is None:
            send(self.process.pid, signal.SIGTERM)
            self.wait_until(lambda: self.exit_code is not None, deadline)
        self.end_leftovers(deadline)
        self.kill_descendants()
        self.relay.join(DRAIN_S)
        assert self.exit_code is not None
        return self.exit_code

    def end_leftovers(self, deadline: float) -> None:
        """Let what the command left behind end by itself, then ask it to."""
        self.wait_until(nothing_left, min(deadline, time.monotonic() + LEFTOVER_S))
        for descendant in descendants_of(os.getpid()):
            send(descendant, signal.SIGTERM)
        self.wait_until(nothing_left, deadline)

    def kill_descendants(self) -> None:
        """Kill until none is left: one that forks while it is looked for is found in the next round."""
        while descendants := descendants_of(os.getpid()):
            for descendant in descendants:
                send(descendant, signal.SIGKILL)
            time.sleep(0.02)
            self.collect()

    def wait_until(self, condition: Callable[[], bool], deadline: float | None) -> None:
        """Collect ended children and listen for the word to stop until ``condition`` holds or the time has come."""
        self.collect()
        while not condition():
            left_s = None if deadline is None else deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                return
            watched = [self.wakeup] if self.asked_to_stop else [self.wakeup, self.lifeline]
            ready, _, _ = select.select(watched, [], [], left_s)
            if self.wakeup in ready:
                os.read(self.wakeup, CHUNK_BYTES)
            if self.lifeline in ready and not os.read(self.lifeline, 1):
                self.asked_to_stop = True
            self.collect()

    def collect(self) -> None:
        """Take the exit codes of all children that ended, orphans that came to us included."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.process.pid:
                code = os.waitstatus_to_exitcode(status)
                self.exit_code = self.process.returncode = code if code >= 0 else 128 - code


def open_wakeup(on_sigterm: Callable[[int, FrameType | None], None]) -> int:
    """A descriptor that becomes readable at SIGTERM (and SIGINT, SIGHUP) and when a child ends."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, on_sigterm)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reading


def close_stdin() -> None:
    """Leave standard input to the command alone, so that who writes to it learns when the command is gone."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def end_with_parent() -> None:
    """In the child, before exec: should the reaper itself be killed, the command is told to stop."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def relay_output(source: int) -> None:
    """Copy the command's output to ours until it ends; go on reading when nobody listens."""
    listening = True
    while chunk := os.read(source, CHUNK_BYTES):
        while listening and chunk:
            try:
                chunk = chunk[os.write(1, chunk) :]
            except OSError:
                listening = False


def nothing_left() -> bool:
    return not descendants_of(os.getpid())


def descendants_of(root: int) -> list[int]:
    """Every process below ``root`` that still runs. Orphans are among them: they become our own children."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            parent = parent_if_running(entry)
            if parent is not None:
                children.setdefault(parent, []).append(int(entry.name))
    found, front = [], [root]
    while front:
        front = [child for parent in front for child in children.get(parent, [])]
        found += front
    return found


def parent_if_running(entry: Path) -> int | None:
    """Parent of a process from ``/proc/<pid>/stat``; None when it has ended. The name in it may hold anything."""
    try:
        state, parent = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[:2]
    except (OSError, ValueError):
        return None
    return None if state in "ZX" else int(parent)


def send(pid: int, number: signal.Signals) -> None:
    """Signal a process that may have ended meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def main(arguments: list[str]) -> int:
    """Command line of the reaper."""
    parser = argparse.ArgumentParser(description="Run a command and leave nothing of it behind.")
    parser.add_argument("--lifeline", type=int, required=True, help="descriptor; its end of file means: stop")
    parser.add_argument("--grace-s", type=float, default=60.0, help="seconds from SIGTERM to SIGKILL")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    try:
        reaper = Reaper(options.command, lifeline=options.lifeline, grace_s=options.grace_s)
    except OSError as error:
        sys.stderr.write(f"cannot start {options.command[0]}: {error}\n")
        return 127
    return reaper.run()


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(main(sys.argv[1:]))  # not sys.exit: the relay may wait for a reader who never comes
