import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tasks.core import attempt, heartbeat
from tasks.core.attempt import attempting, last_sign, sign_of
from tasks.core.runner import Spec, run
from tasks.core.store import REPOSITORY

LONG_AGO = 1.0
BEATS_S = 0.5
"""Ten beats of the hurried hearts here."""


@pytest.fixture(autouse=True)
def _hurried(monkeypatch):
    monkeypatch.setattr(heartbeat, "EVERY_S", 0.05)


def test_the_sign_of_life_moves_on_while_the_attempt_lasts(store):
    with attempting(store, "make", "key", []) as folder:
        os.utime(sign_of(folder), (LONG_AGO, LONG_AGO))
        time.sleep(BEATS_S)
        assert store.now() - store.modified(sign_of(folder)) < BEATS_S
    assert not sign_of(folder).exists()


def test_a_sign_that_was_taken_away_is_not_given_again(store):
    with attempting(store, "make", "key", []) as folder:
        sign_of(folder).unlink()
        time.sleep(BEATS_S)
        assert not sign_of(folder).exists()


def test_a_fork_that_outlives_a_killed_attempt_does_not_keep_it_alive(store):
    program = (
        "import os, time\nfrom tasks.core import attempt, heartbeat\nfrom tasks.core.store import open_store\n"
        f"heartbeat.EVERY_S, store = 0.05, open_store({store.root.path!r})\n"
        "with attempt.attempting(store, 'make', 'key', []) as folder:\n"
        "    child = os.fork()\n"
        "    if child: print(child, folder, flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as parent:
        child, folder = parent.stdout.readline().split()
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        try:
            sign = sign_of(store.root / "make" / "key" / Path(folder).name)
            os.utime(sign, (LONG_AGO, LONG_AGO))
            time.sleep(BEATS_S)
            os.kill(int(child), 0)
            assert store.modified(sign) == LONG_AGO
        finally:
            os.kill(int(child), signal.SIGKILL)


def test_a_published_artifact_keeps_no_sign_of_its_attempt(store):
    made = run(Spec(stage="make"), store)
    left = {path.name for path in Path(made.uri).iterdir()}
    assert not [name for name in left if name.endswith(attempt.ALIVE)]
    assert "records" in left


def test_an_attempt_that_ended_just_now_was_not_silent(store):
    with attempting(store, "make", "key", []) as folder:
        pass
    store.discard(folder)
    assert last_sign(store, folder) > store.now()


def test_an_attempt_that_fails_leaves_neither_folder_nor_sign(store):
    with pytest.raises(ZeroDivisionError), attempting(store, "make", "key", []) as folder:
        raise ZeroDivisionError
    assert not folder.exists()
    assert not sign_of(folder).exists()
