"""What can happen to a stage, each at a random moment of it."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable

from tests.faults.world import ROOT, STAGE, TRACKING, Attempt, Victim, World

Fault = Callable[[World, random.Random], None]
FORWARD_OR_BACK = ("-1h", "+48h")
"""An hour back, and two days on, when all would be old enough for garbage collection if it believed this clock."""


def kill(victim: Victim) -> Fault:
    """SIGKILL for one process of the attempt, at any moment of it; one that is not there yet is waited for."""

    def fault(world: World, draw: random.Random) -> None:
        attempt, moment = world.attempt(), time.monotonic() + draw.uniform(0, world.seconds)
        while not attempt.ended() and (time.monotonic() < moment or not world.processes(victim)):
            time.sleep(0.05)
        world.kill(victim, draw)
        code = attempt.wait()
        if victim == TRACKING:
            assert code == 0

    return fault


def kill_again_and_again(world: World, draw: random.Random) -> None:
    """Three attempts in a row, each killed at some moment."""
    for _ in range(3):
        kill(STAGE)(world, draw)
        world.wait_for_silence()


def clear(world: World, draw: random.Random) -> None:
    """What clearing a task or marking it failed does: SIGTERM, and SIGKILL five seconds later."""
    attempt = world.attempt()
    time.sleep(draw.uniform(0, world.seconds))
    attempt.process.terminate()
    try:
        attempt.wait(5)
    except subprocess.TimeoutExpired:
        attempt.process.kill()
    attempt.wait()


def two_at_once(world: World, draw: random.Random, second_clock: str = "") -> None:
    """The same task twice, a moment apart: both succeed, with one artifact."""
    first = world.attempt()
    time.sleep(draw.choice([0, 0, draw.uniform(0, world.seconds)]))
    world.clock = second_clock
    second = world.attempt()
    assert [first.wait(), second.wait()] == [0, 0]
    assert len({artifact.record.content_digest for artifact in world.artifacts()}) == 1


def full_disk(world: World, draw: random.Random) -> None:
    """A disk that is full before the artifact is whole; later there is room."""
    store = world.folder / "store"
    store.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={draw.choice([8, 16, 32])}k", "tmpfs", str(store)], check=True)
    try:
        assert world.attempt().wait() == 4
        assert world.artifacts() == []
    finally:
        world.wait_for_silence()
        subprocess.run(["umount", str(store)], check=True)


def tracker_away(world: World, _draw: random.Random) -> None:
    """Nobody listens where MLflow should be: the stage succeeds, and its run is written later."""
    there = world.tracking_uri
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        world.tracking_uri = f"http://127.0.0.1:{closed.getsockname()[1]}"
        assert world.attempt().wait() == 0
    world.tracking_uri = there


def collect_meanwhile(world: World, _draw: random.Random) -> None:
    """Garbage collection over and over while the stage runs: it takes nothing that is being made."""
    collect_until_ended(world, world.attempt())


def collect_until_ended(world: World, attempt: Attempt) -> None:
    while not attempt.ended():
        command = [sys.executable, "-m", "tasks", "gc", "--no-registry"]
        subprocess.run(command, cwd=ROOT, env=world.environment(), check=True, stdout=subprocess.DEVNULL)
    assert attempt.wait() == 0


def collect_with_a_wrong_clock(world: World, draw: random.Random) -> None:
    """Garbage collection by a machine whose clock is wrong, while the stage runs by a right one."""
    attempt = world.attempt()
    world.clock = draw.choice(FORWARD_OR_BACK)
    collect_until_ended(world, attempt)
    world.clock = ""


def clock_set_back_between_attempts(world: World, draw: random.Random) -> None:
    """The next attempt is told that it is an hour before the one that was killed."""
    kill(STAGE)(world, draw)
    world.clock = "-1h"


def clock_set_back_for_one_of_two(world: World, draw: random.Random) -> None:
    """Of two attempts at once, the second is told that it is an hour earlier."""
    two_at_once(world, draw, second_clock="-1h")
