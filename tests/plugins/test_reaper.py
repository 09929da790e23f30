"""The reaper against real processes that do not want to end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REAPER = ROOT / "plugins/operators/reaper.py"

IGNORE_TERM = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
SAY_PID = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); "
SLEEP = "import time; time.sleep(600)"


class Running:
    """A reaper, the lifeline we hold, and what it says."""

    def __init__(self, *command: str, grace_s: float = 5.0) -> None:
        watched, self.lifeline = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-I", str(REAPER), "--lifeline", str(watched), "--grace-s", str(grace_s), "--", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[watched],
            start_new_session=True,
        )
        os.close(watched)

    def let_go(self) -> None:
        os.close(self.lifeline)

    def end(self, given: bytes = b"", timeout_s: float = 30.0) -> tuple[int, str]:
        said, _ = self.process.communicate(given, timeout_s)
        return self.process.returncode, said.decode()


def python(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, arguments)]


def written(path: Path, timeout_s: float = 20.0) -> str:
    """What a process writes to a file, as soon as it is there."""
    until = time.monotonic() + timeout_s
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < until, f"{path.name} was not written"
        time.sleep(0.02)
    return path.read_text()


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def ended(pid: int, within_s: float) -> bool:
    until = time.monotonic() + within_s
    while runs(pid) and time.monotonic() < until:
        time.sleep(0.05)
    return not runs(pid)


@pytest.mark.parametrize(
    ("code", "expected"), [("", 0), ("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_the_exit_code_is_the_commands(code, expected):
    assert Running(*python(code)).end() == (expected, "")


def test_output_and_errors_come_in_the_order_they_were_written():
    code = "import os\nfor n in range(200): os.write(1 + n % 2, b'%d\\n' % n)"
    assert Running(*python(code)).end() == (0, "".join(f"{n}\n" for n in range(200)))


def test_standard_input_goes_to_the_command():
    text = "文字\n" * 100_000
    code, said = Running(*python("import sys; print(len(sys.stdin.buffer.read()))")).end(text.encode())
    assert (code, int(said)) == (0, len(text.encode()))


def test_a_command_that_cannot_be_started_is_named():
    code, said = Running("/no/such/program").end()
    assert code == 127
    assert "/no/such/program" in said


def test_the_command_is_not_born_deaf_to_sigterm():
    code = "import signal; print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)"
    assert Running(*python(code)).end() == (0, "True\n")


@pytest.mark.parametrize("way", ["lifeline", "sigterm"])
def test_a_checkpoint_of_three_seconds_is_finished(tmp_path, way):
    code = f"""
import pathlib, signal, sys, time
def save(*_):
    time.sleep(3)
    pathlib.Path(sys.argv[2]).write_text("saved")
    raise SystemExit(75)
signal.signal(signal.SIGTERM, save)
{SAY_PID}
time.sleep(600)
"""
    running = Running(*python(code, tmp_path / "pid", tmp_path / "checkpoint"), grace_s=30)
    written(tmp_path / "pid")
    running.let_go() if way == "lifeline" else running.process.send_signal(signal.SIGTERM)
    assert running.end() == (75, "")
    assert (tmp_path / "checkpoint").read_text() == "saved"


def test_who_ignores_sigterm_is_killed_after_the_grace_period_and_not_before(tmp_path):
    running = Running(*python(IGNORE_TERM + SAY_PID + SLEEP, tmp_path / "pid"), grace_s=2)
    pid = int(written(tmp_path / "pid"))
    asked = time.monotonic()
    running.let_go()
    code, _ = running.end()
    assert code == 137
    assert not runs(pid)
    assert 2 <= time.monotonic() - asked < 15


def test_a_grandchild_in_a_session_of_its_own_is_killed_too(tmp_path):
    grandchild = IGNORE_TERM + SAY_PID + SLEEP
    code = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {grandchild!r}, sys.argv[1]], start_new_session=True)
"""
    running = Running(*python(code, tmp_path / "pid"), grace_s=1)
    pid = int(written(tmp_path / "pid"))
    running.let_go()
    running.end()
    assert not runs(pid)


def test_an_orphan_does_not_outlive_a_command_that_ended_well(tmp_path):
    code = f"""
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {SAY_PID + SLEEP!r}, sys.argv[1]], start_new_session=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""
    running = Running(*python(code, tmp_path / "pid"))
    assert running.end()[0] == 0
    assert not runs(int(written(tmp_path / "pid")))


def test_a_leftover_may_finish_what_takes_a_moment(tmp_path):
    late = "import pathlib, sys, time; time.sleep(1); pathlib.Path(sys.argv[1]).write_text('done')"
    code = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {late!r}, sys.argv[1]])"
    assert Running(*python(code, tmp_path / "late")).end()[0] == 0
    assert (tmp_path / "late").read_text() == "done"


def test_nothing_survives_an_operator_that_is_killed(tmp_path):
    """The stage saves while nobody reads its output any more; its worker is stubborn."""
    stage = f"""
import pathlib, signal, subprocess, sys, time
def save(*_):
    for n in range(20000):
        print("saving", n)
    time.sleep(1)
    pathlib.Path("checkpoint").write_text("saved")
signal.signal(signal.SIGTERM, save)
pathlib.Path("stage").write_text(str(__import__("os").getpid()))
subprocess.run([sys.executable, "-c", {IGNORE_TERM + SAY_PID + SLEEP!r}, "worker"], start_new_session=True)
"""
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks/__init__.py").touch()
    (tmp_path / "tasks/__main__.py").write_text(stage)
    operator = f"""
from pathlib import Path
from plugins.operators import backends
backends.ROOT = Path({str(tmp_path)!r})
for line in backends.LocalJob(["run"], "{{}}", {{}}).lines(): pass
"""
    environment = {**os.environ, "AIRFLOW__HEADRACE__GRACE_S": "4", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(python(operator), env=environment, cwd=ROOT, start_new_session=True)
    try:
        pids = [int(written(tmp_path / name, 60)) for name in ("stage", "worker")]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert written(tmp_path / "checkpoint") == "saved"
    assert all(ended(pid, within_s=20) for pid in pids)
