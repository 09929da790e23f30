"""Servers in the background: real processes that fork away, ignore SIGTERM, die at once, or lost their pid."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bin/background"
SLEEP = "import time; time.sleep(600)"
IGNORE_TERM = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
FORK_AWAY = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], start_new_session=True)
print(child.pid, flush=True)
{SLEEP}
"""
SAY_AND_FAIL = "print('there is no such database'); raise SystemExit(1)"


class Checkout:
    """A folder with the script in it, so that its state is its own."""

    def __init__(self, root: Path) -> None:
        (root / "bin").mkdir()
        self.root = root
        self.script = shutil.copy(SCRIPT, root / "bin")

    def __call__(self, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, self.script, *map(str, arguments)],
            env={**os.environ, "HEADRACE_STOP_S": "1", "HEADRACE_READY_S": "2", **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def start(self, code: str, name: str = "one", port: int = 1) -> int:
        """Start Python code and give its pid."""
        assert self("start", name, port, sys.executable, "-c", code).stdout == f"{name}\n"
        return int((self.root / f"var/run/{name}.pid").read_text().split()[0])

    def said(self, pattern: str) -> str:
        """What the server says, as soon as it does."""
        until = time.monotonic() + 20
        while not (found := re.search(pattern, (self.root / "var/log/one.log").read_text())):
            assert time.monotonic() < until
            time.sleep(0.05)
        return found[0]


@pytest.fixture
def background(tmp_path):
    made = Checkout(tmp_path)
    yield made
    made("stop", *(file.stem for file in tmp_path.glob("var/run/*.pid")))


@pytest.fixture
def taken():
    """A port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_server_outlives_the_one_who_started_it_in_a_session_of_its_own(background):
    pid = background.start(SLEEP)
    assert runs(pid)
    assert os.getsid(pid) == os.getpgid(pid) == pid


def test_it_is_started_once(background):
    pid = background.start(SLEEP)
    again = background("start", "one", 2, sys.executable, "-c", SLEEP)
    assert (again.returncode, again.stdout) == (0, "")
    assert background("port", "NO_SUCH_PORT", 8080, "one").stdout == "1\n"
    assert runs(pid)


def test_stop_ends_what_went_into_a_session_of_its_own(background):
    leader = background.start(FORK_AWAY)
    child = int(background.said(r"\d+(?=\n)"))
    assert os.getsid(child) == child
    assert background("stop", "one").returncode == 0
    assert not runs(leader)
    assert not runs(child)
    assert not list(background.root.glob("var/run/*.pid"))


def test_who_ignores_sigterm_is_killed_after_the_grace_period(background):
    pid = background.start(IGNORE_TERM)
    time.sleep(0.3)  # until it ignores
    began = time.monotonic()
    assert background("stop", "one").returncode == 0
    assert time.monotonic() - began >= 1
    assert not runs(pid)


def test_stopping_what_does_not_run_is_no_failure(background):
    stopped = background("stop", "one")
    assert (stopped.returncode, stopped.stderr) == (0, "one: does not run\n")


@pytest.mark.parametrize("field", [2, 3], ids=["started", "boot"])
def test_a_pid_that_belongs_to_another_program_by_now_is_left_alone(background, field):
    pid = background.start(SLEEP, "other")
    words = (background.root / "var/run/other.pid").read_text().split()
    words[field] = "7"
    (background.root / "var/run/one.pid").write_text(" ".join(words))
    assert background("stop", "one").stderr == "one: does not run\n"
    assert runs(pid)


def test_what_a_killed_leader_left_is_ended_before_it_is_started_again(background):
    leader = background.start(FORK_AWAY.replace(", start_new_session=True", ""))
    left = int(background.said(r"\d+(?=\n)"))
    os.kill(leader, signal.SIGKILL)
    while runs(leader):
        time.sleep(0.01)
    assert runs(left)
    assert background.start(SLEEP) != leader
    assert not runs(left)


def test_a_server_that_ends_before_it_is_ready_shows_the_end_of_its_log(background):
    background("start", "one", 1, sys.executable, "-c", f"import time; time.sleep(0.5); {SAY_AND_FAIL}")
    waited = background("wait", "http://127.0.0.1:1/", "one", HEADRACE_READY_S="30")
    assert waited.returncode == 4
    assert "one ended before it was ready" in waited.stderr
    assert "there is no such database" in waited.stderr


def test_a_server_that_does_not_answer_is_waited_for_until_the_time_is_over(background):
    background.start(SLEEP)
    waited = background("wait", "http://127.0.0.1:1/health", "one")
    assert waited.returncode == 4
    assert "was not ready after 2 s" in waited.stderr


def test_a_default_port_that_is_taken_is_passed_over_with_a_word(background, taken):
    chosen = background("port", "NO_SUCH_PORT", taken, "one")
    assert int(chosen.stdout) > taken
    assert f"port {taken} is taken" in chosen.stderr


def test_a_port_that_is_asked_for_and_taken_is_refused(background, taken):
    refused = background("port", "ONE_PORT", 8080, "one", ONE_PORT=str(taken))
    assert (refused.returncode, refused.stdout) == (4, "")
    assert f"port {taken}, which ONE_PORT asks for, is taken" in refused.stderr


@pytest.mark.parametrize("asked", ["http", "0", "65536", "-1"])
def test_a_port_that_is_none_is_refused(background, asked):
    refused = background("port", "ONE_PORT", 8080, "one", ONE_PORT=asked)
    assert refused.returncode == 2
    assert "from 1 to 65535" in refused.stderr


def test_a_running_server_is_not_moved_to_another_port(background):
    background.start(SLEEP, port=7777)
    refused = background("port", "ONE_PORT", 8080, "one", ONE_PORT="7778")
    assert refused.returncode == 4
    assert "make down first" in refused.stderr
