"""Random faults at random moments on every kind of store: the next attempt succeeds, and gc removes the rest.

After each trial, besides what holds on a local disk: garbage collection a day later leaves the artifact, what it needs,
and nothing else, as an independent witness of the store sees it: no temporary file, no upload that was not finished.

The long run has 300 trials, 100 on each kind of store::

    HEADRACE_STORE_TRIALS=300 bin/with-env python -m pytest tests/faults/test_every_store.py
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable

import pytest

from tasks.core import gc, remote_store
from tasks.core.artifact import Artifact
from tasks.core.lease import LEASE
from tasks.core.location import files_below
from tasks.core.store import open_store
from tests.faults import faults
from tests.faults.faults import kill
from tests.faults.trial import next_attempt_after
from tests.faults.world import STAGE, World

TOTAL = int(os.environ.get("HEADRACE_STORE_TRIALS", "0"))
KINDS = ("file", "s3", "hdfs")
TTL_S = 5.0
HURRIED = f"""
import importlib.abc, importlib.machinery, sys
class Hurried(importlib.abc.MetaPathFinder):
    "Lets a holder that gives no sign be replaced after {TTL_S} s, not 60."
    def find_spec(self, name, path, target=None):
        if name != "tasks.core.remote_store":
            return None
        sys.meta_path.remove(self)
        import tasks.core.heartbeat, tasks.core.remote_store as module
        module.TTL_S, module.POLL_S, tasks.core.heartbeat.EVERY_S = {TTL_S}, 0.2, 0.5
        return module.__spec__
sys.meta_path.insert(0, Hurried())
"""
BROKEN = """
import pyarrow.parquet as parquet
left, write = [{number}], parquet.write_table
def breaks(table, file, *more, **named):
    left[0] -= 1
    if left[0]:
        return write(table, file, *more, **named)
    file.write(b"PAR1 and no more")
    raise RuntimeError("an exception in the middle of a file")
parquet.write_table = breaks
"""


def exception_in_mid_write(world: World, draw: random.Random) -> None:
    """The stage raises inside ``with open(…)``: object stores then publish what was written so far."""
    world.change = HURRIED + BROKEN.format(number=draw.randint(1, 4))
    assert world.attempt().wait() == 1
    world.change = HURRIED


def stopped_until_overtaken(world: World, draw: random.Random) -> None:
    """The first attempt stands still until its lease has expired and another has worked, then goes on."""
    first = world.attempt()
    time.sleep(draw.uniform(0.5, world.seconds))
    stopped = world.processes(STAGE)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    second = world.attempt()
    moment = time.monotonic() + TTL_S + draw.uniform(1, 4)
    while not second.ended() and time.monotonic() < moment:
        time.sleep(0.1)
    for pid in stopped:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            continue
    assert first.wait() in (0, 75), (world.folder / "attempts.log").read_text()
    assert second.wait() in (0, 75)


def server_killed(server) -> Callable[[World, random.Random], None]:
    """SIGKILL for the server in the middle of it all; after some seconds it is there again with what it knew."""

    def fault(world: World, draw: random.Random) -> None:
        attempt = world.attempt()
        time.sleep(draw.uniform(0, world.seconds))
        server.kill()
        back = threading.Timer(draw.uniform(0, 4), server.start)
        back.start()
        try:
            assert attempt.wait(240) in (0, 4), (world.folder / "attempts.log").read_text()
        finally:
            back.join()

    return fault


FAULTS = {
    "kill the stage": kill(STAGE),
    "raise in the middle of a file": exception_in_mid_write,
    "two attempts at once": faults.two_at_once,
    "collect garbage": faults.collect_meanwhile,
    "stop it until it is overtaken": stopped_until_overtaken,
}


@pytest.fixture(scope="module")
def template(tmp_path_factory, undisturbed):
    """An undisturbed run on a local disk to compare with, whatever the store."""
    rows = [{"text": f"Report {number}: nobody wrote 在{number}号之前。"} for number in range(400)]
    source = tmp_path_factory.mktemp("source") / "rows.jsonl"
    source.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    config = {"sources": [{"name": "rows", "path": str(source), "format": "jsonl"}], "num_shards": 4}
    return undisturbed(tmp_path_factory.mktemp("ingest"), "ingest", config, {})


@pytest.fixture
def server(store_root, request):
    """The server behind the store; none behind a local disk."""
    kind = store_root.partition("://")[0]
    return request.getfixturevalue(f"{kind}_server") if kind in ("s3", "hdfs") else None


def trials() -> list:
    """Kind of store and number of each trial; by default one on each remote kind, as a local disk has its own."""
    if not TOTAL:
        return [pytest.param(kind, 1, id=f"{kind}-1") for kind in KINDS[1:]]
    numbers = range(TOTAL // len(KINDS))
    return [pytest.param(kind, number, id=f"{kind}-{number}") for kind in KINDS for number in numbers]


@pytest.mark.parametrize(("store_root", "number"), trials(), indirect=["store_root"])
def test_after_any_fault_the_store_shows_one_whole_artifact_and_nothing_else(
    store_root, server, number, template, tmp_path, monkeypatch
):
    for name in ("CACHE", "SCRATCH"):
        monkeypatch.setenv(f"HEADRACE_{name}", str(tmp_path / name.lower()))
    draw = random.Random(f"{store_root.partition(':')[0]} {number}")
    offered = dict(FAULTS) if server is None else {**FAULTS, "kill the server": server_killed(server)}
    if server is None:
        del offered["stop it until it is overtaken"]  # a lock of this machine's kernel does not expire
    name = list(offered)[(number if TOTAL else draw.randrange(len(offered))) % len(offered)]
    monkeypatch.setattr(remote_store, "TTL_S", TTL_S)
    fault = hurried(offered[name])
    made = next_attempt_after(name, fault, template, tmp_path, draw, monkeypatch, store_root)
    assert left_after_a_day(made, store_root, monkeypatch) == []
    if store_root.startswith("s3://"):
        assert server.multipart_uploads(store_root.partition(f"{server.bucket}/")[2]) == []


def hurried(fault):
    """The fault in a world whose leases expire soon."""

    def happens(world: World, draw: random.Random) -> None:
        world.change = HURRIED
        fault(world, draw)

    return happens


def left_after_a_day(made: Artifact, root: str, patch: pytest.MonkeyPatch) -> list[str]:
    """What lies in the store besides the artifact, its records and its leases once garbage was collected."""
    store = open_store(root)
    clock = type(store).now
    time.sleep(TTL_S if "://" in root else 0)
    patch.setattr(type(store), "now", lambda self: clock(self) + 1.1 * gc.DAY_S)
    gc.collect(store, [made.uri])
    wanted = {f"ingest/{made.uri.rsplit('/', 1)[1]}/{made.record.attempt}/{file.path}" for file in made.record.files}
    there = set(files_below(store.root))
    assert wanted <= there
    needed = ("/records/", f"/{LEASE}/", "/.lock")
    return sorted(
        name for name in there - wanted if not name.startswith("runs/") and not any(part in name for part in needed)
    )
