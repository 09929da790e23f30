import shutil
import threading
import time
from pathlib import Path

import pytest

from tasks.core.errors import TryAgain
from tasks.core.lease import LEASE, alone_in
from tasks.core.runner import Spec, run


def overtake(store, artifact) -> None:
    """Take the next generation of a key whose holder lost its lock without noticing, as a cut-off mount does."""
    store.create(artifact / LEASE / "99.json", b"{}")


def until(condition) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)


def test_each_holder_has_a_higher_generation_than_the_one_before(store):
    generations = []
    for _ in range(3):
        with store.locked("make", "key") as lease:
            lease.check()
            generations.append(lease.generation)
    assert generations == [1, 2, 3]


def test_a_holder_that_was_overtaken_is_told_to_try_again(store):
    with store.locked("make", "key") as lease:
        overtake(store, store.artifact("make", "key"))
        with pytest.raises(TryAgain, match="holds generation 1 of the key, another one took 99"):
            lease.check()


def test_a_run_that_was_overtaken_publishes_nothing(store):
    caught = []

    def overtaken() -> None:
        with pytest.raises(TryAgain) as error:
            run(Spec(stage="make", config={"pause_s": 0.5}), store)
        caught.append(error.value)

    thread = threading.Thread(target=overtaken)
    thread.start()
    root = Path(store.root.path)
    until(lambda: list(root.glob("make/*/*/first.txt")))
    (attempt,) = root.glob("make/*/*/first.txt")
    overtake(store, store.root / "make" / attempt.parts[-3])
    thread.join()
    assert caught
    assert store.artifacts("make") == []
    assert not attempt.exists()


def test_who_waits_for_a_folder_that_is_swept_holds_a_lock_that_counts(tmp_path):
    folder, holds, done = tmp_path / "key", threading.Event(), threading.Event()

    def wait_for_it() -> None:
        with alone_in(folder):
            holds.set()
            done.wait(30)

    waiter = threading.Thread(target=wait_for_it)
    with alone_in(folder):
        waiter.start()
        time.sleep(0.2)  # it waits for the lock file that goes now
        shutil.rmtree(folder)
    assert holds.wait(30)
    with pytest.raises(BlockingIOError), alone_in(folder, wait=False):
        pass
    done.set()
    waiter.join()
