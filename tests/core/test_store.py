import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from upath import UPath

from tasks.core.errors import ConfigError
from tasks.core.store import LocalStore, open_store


def test_of_forty_writers_exactly_one_wins_and_its_bytes_stand(tmp_path):
    store, start = LocalStore(UPath(tmp_path)), threading.Barrier(40)

    def publish(number: int) -> bool:
        start.wait()
        try:
            store.create(UPath(tmp_path) / "records" / "1.json", b"%d" % number * 1000)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(40) as pool:
        won = list(pool.map(publish, range(40)))
    assert won.count(True) == 1
    assert (tmp_path / "records" / "1.json").read_bytes() == b"%d" % won.index(True) * 1000
    assert [path.name for path in (tmp_path / "records").iterdir()] == ["1.json"]


def publish_for_ever(root: str) -> None:
    """Publish one record after the other until killed."""
    store = LocalStore(UPath(root))
    for number in range(1_000_000):
        store.create(UPath(root) / "records" / f"{number}.json", b"x" * 100_000)


@pytest.mark.parametrize("seed", range(3))
def test_a_writer_killed_at_any_moment_leaves_only_whole_records(tmp_path, seed):
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=publish_for_ever, args=(str(tmp_path),))
    process.start()
    records = tmp_path / "records"
    while not (records.is_dir() and len(list(records.glob("*.json"))) > seed):
        time.sleep(0.01)
    time.sleep(0.013 * (seed + 1))
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert {path.stat().st_size for path in records.glob("[0-9]*.json")} == {100_000}


def test_an_unknown_kind_of_store_is_refused():
    with pytest.raises(ConfigError, match="no such kind of store"):
        open_store("memory://bucket/prefix")


def test_a_store_that_is_a_file_is_refused(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(ConfigError, match="not a folder"):
        open_store(str(path))


def test_a_store_may_have_spaces_and_chinese_in_its_path(tmp_path):
    store = open_store(str(tmp_path / "a store 仓库"))
    attempt = store.new_attempt("make", "key")
    store.create(store.artifact("make", "key") / "records" / "1.json", b"{}")
    assert Path(attempt.path).is_dir()
    assert store.record_numbers(store.artifact("make", "key")) == [1]


def test_the_lock_of_a_key_is_free_again_after_its_holder_was_killed(tmp_path):
    store = open_store(str(tmp_path))
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=hold, args=(str(tmp_path),))
    process.start()
    while not (tmp_path / "held").exists():
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with store.locked("make", "key") as lease:
        assert lease.generation == 2


def hold(root: str) -> None:
    """Take the lock and never give it back."""
    with open_store(root).locked("make", "key"):
        Path(root, "held").touch()
        time.sleep(600)
