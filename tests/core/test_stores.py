"""What every kind of store promises, each on a real one: a local disk, S3 and HDFS."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from upath import UPath

from tasks.core import copy as copying
from tasks.core import gc, heartbeat, remote_store
from tasks.core.artifact import altered, newest
from tasks.core.attempt import attempting
from tasks.core.check import check
from tasks.core.errors import ConfigError, DataError, ServiceError, TryAgain
from tasks.core.lease import LEASE
from tasks.core.location import files_below, local, names_in
from tasks.core.probe import prove_exclusive_writes
from tasks.core.runner import Spec, run
from tasks.core.store import REPOSITORY, UNREACHABLE, WORKSPACE, open_store
from tasks.core.transfer import cache_bytes, local_copy, local_output
from tests.core.conftest import TOY

REMOTE = pytest.mark.parametrize("store_root", ["s3", "hdfs"], indirect=True)
S3 = pytest.mark.parametrize("store_root", ["s3"], indirect=True)
DAY_S = 24 * 3600
HURRIED_S = 2.0
"""For how long a holder may be silent here."""


@pytest.fixture
def store(store_root, tmp_path, monkeypatch):
    """An empty store of each kind."""
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HEADRACE_SCRATCH", str(tmp_path / "scratch"))
    return open_store(store_root)


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(remote_store, "TTL_S", HURRIED_S)
    monkeypatch.setattr(remote_store, "POLL_S", 0.1)
    monkeypatch.setattr(heartbeat, "EVERY_S", 0.3)


@pytest.fixture
def days_pass(store, monkeypatch):
    """Let the store's clock go on by some days."""
    there = type(store).now

    def pass_by(days: float) -> None:
        monkeypatch.setattr(type(store), "now", lambda self: there(self) + days * DAY_S)

    return pass_by


def killed_stage(store) -> str:
    """Kill a process while its stage writes; the attempt's name."""
    program = (
        f"import tasks; tasks.__path__.append({str(TOY)!r})\n"
        "from tasks.core.runner import Spec, run\nfrom tasks.core.store import open_store\n"
        f"run(Spec(stage='make', config={{'pause_s': 60}}), open_store({str(store.root)!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=REPOSITORY) as process:
        deadline = time.monotonic() + 60
        while not (found := [name for name in files_below(store.root / "make") if name.endswith("first.txt")]):
            assert time.monotonic() < deadline, "the stage never began"
            time.sleep(0.1)
        process.kill()
    return found[0].split("/")[1]


def test_of_twenty_writers_exactly_one_wins_and_its_bytes_stand(store):
    path, start = store.root / "records" / "1.json", threading.Barrier(20)

    def publish(number: int) -> bool:
        start.wait()
        try:
            store.create(path, b"%d" % number * 1000)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(20) as pool:
        won = list(pool.map(publish, range(20)))
    assert won.count(True) == 1
    assert path.read_bytes() == b"%d" % won.index(True) * 1000
    assert names_in(path.parent) == ["1.json"]


def test_the_store_is_proven_by_the_command_that_asks(store):
    prove_exclusive_writes(store)
    assert not [name for name in files_below(store.root) if name.startswith(".probe")]


def test_the_same_bytes_under_a_taken_name_are_this_very_call(store):
    if store.root.protocol == "":
        pytest.skip("a local disk's answer cannot be lost")
    store.create(store.root / "mark", b"the same")
    store.create(store.root / "mark", b"the same")
    with pytest.raises(FileExistsError):
        store.create(store.root / "mark", b"another")


def test_every_store_makes_the_same_artifact_and_finds_it_again(store, tmp_path):
    made, again = run(Spec(stage="make"), store), run(Spec(stage="make"), store)
    there = run(Spec(stage="make"), open_store(str(tmp_path / "elsewhere")))
    assert (again.cached, again.uri) == (True, made.uri)
    assert made.content_digest == there.content_digest
    assert UPath(made.uri).name == UPath(there.uri).name
    counted = run(Spec(stage="count", inputs={"documents": made.uri}), store)
    assert (
        counted.result == run(Spec(stage="count", inputs={"documents": there.uri}), open_store(there.uri[:-30])).result
    )


@pytest.mark.parametrize("fail", ["data", "bug"])
def test_a_stage_that_fails_in_the_middle_leaves_nothing_to_be_seen(store, fail):
    with pytest.raises((DataError, ZeroDivisionError)):
        run(Spec(stage="make", config={"fail": fail}), store)
    assert store.artifacts("make") == []
    assert [name for name in files_below(store.root / "make") if LEASE not in name and ".lock" not in name] == []


def test_after_a_kill_the_next_attempt_succeeds_and_gc_takes_what_is_left(store, hurried, days_pass):
    key = killed_stage(store)
    assert store.artifacts("make") == []
    made = run(Spec(stage="make"), store)
    artifact = store.root / "make" / key
    time.sleep(HURRIED_S)
    assert {one.kind for one in gc.collect(store, [made.uri])} <= {gc.MARKED}
    days_pass(1.1)
    assert gc.ATTEMPT in {one.kind for one in gc.collect(store, [made.uri])}
    left = [name for name in files_below(artifact) if LEASE not in name and name != ".lock"]
    assert left in ([], [UNREACHABLE])
    assert altered(newest(store, UPath(made.uri))) == []


def test_what_nobody_needs_goes_in_two_passes_a_day_apart(store, hurried, days_pass):
    made = run(Spec(stage="make"), store)
    assert [one.kind for one in gc.collect(store, ())] == [gc.MARKED]
    assert gc.collect(store, ()) == []
    days_pass(1.1)
    assert [one.kind for one in gc.collect(store, ())] == [gc.SWEPT]
    assert files_below(UPath(made.uri)) == {}
    assert not run(Spec(stage="make"), store).cached


@REMOTE
def test_a_sweep_that_comes_too_late_puts_the_records_back(store, hurried):
    made = run(Spec(stage="make"), store)
    before = files_below(UPath(made.uri))
    assert not store.sweep(UPath(made.uri))  # nobody marked it, or somebody took the mark away
    assert altered(newest(store, UPath(made.uri))) == []
    assert {name: size for name, size in before.items() if LEASE not in name}.items() <= files_below(
        UPath(made.uri)
    ).items()


@REMOTE
def test_who_gives_signs_of_life_keeps_the_key(store, hurried):
    with store.locked("make", "key"):
        time.sleep(2 * HURRIED_S)
        with pytest.raises(BlockingIOError), store.alone(store.artifact("make", "key")):
            pass


@REMOTE
def test_who_is_silent_loses_the_key_and_learns_it(store, hurried, monkeypatch):
    with store.locked("make", "key") as first:
        monkeypatch.setattr(type(store), "touch", lambda self, path: None)
        with store.locked("make", "key") as second:
            assert second.generation == first.generation + 1
            second.check()
            with pytest.raises(TryAgain, match="overtaken"):
                first.check()


@REMOTE
def test_a_key_that_was_given_back_is_free_at_once(store, monkeypatch):
    monkeypatch.setattr(remote_store, "POLL_S", 60)
    for generation in (1, 2, 3):
        with store.locked("make", "key") as lease:
            assert lease.generation == generation


@S3
def test_gc_aborts_uploads_that_nobody_will_finish(store, s3_server, days_pass, monkeypatch):
    client, prefix = s3_server.client(), store.root.path.partition("/")[2]
    dead = f"{prefix}/make/{'0' * 24}/attempt/dead.bin"
    client.create_multipart_upload(Bucket=s3_server.bucket, Key=dead)
    with attempting(store, "make", "1" * 24, []) as folder:
        alive = (folder / "alive.bin").path.partition("/")[2]
        client.create_multipart_upload(Bucket=s3_server.bucket, Key=alive)
        assert gc.collect(store, ()) == []  # both are young
        days_pass(1.1)
        monkeypatch.setattr(
            gc, "inputs_at_work", lambda store, artifact, since: None if "0" * 24 in str(artifact) else []
        )
        assert [one.kind for one in gc.collect(store, ())] == [gc.LEFTOVER]
        assert s3_server.multipart_uploads(prefix) == [alive]
    store.discard(folder)
    assert s3_server.multipart_uploads(prefix) == []


@pytest.mark.parametrize("store_root", ["s3", "hdfs"], indirect=True)
def test_an_artifact_is_copied_to_and_fro_byte_by_byte(store, tmp_path):
    here = open_store(str(tmp_path / "here"))
    made = run(Spec(stage="make"), here)
    there = copying.copy(here, made.uri, store)
    back = copying.copy(store, there.uri, open_store(str(tmp_path / "back")))
    assert there.record.files == back.record.files == newest(here, UPath(made.uri)).record.files
    assert check([there, back]) == []


def test_other_bytes_of_the_same_size_are_named(store):
    made = newest(store, UPath(run(Spec(stage="make"), store).uri))
    path = made.path / made.record.files[0].path
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
    assert altered(made) == []
    assert [damage.seen_by_size for damage in check([made])] == [False]


def test_a_cut_off_file_is_seen_before_use_and_made_again(store):
    made = newest(store, UPath(run(Spec(stage="make"), store).uri))
    path = made.path / made.record.files[0].path
    path.write_bytes(path.read_bytes()[:-1])
    again = run(Spec(stage="make"), store)
    assert (again.cached, newest(store, UPath(again.uri)).number) == (False, 2)


def test_a_library_gets_real_files_with_the_bytes_of_the_record(store):
    made = newest(store, UPath(run(Spec(stage="make"), store).uri))
    with local_copy(made.path) as folder:
        assert files_below(UPath(folder)) == {file.path: file.size for file in made.record.files}
        assert [(folder / file.path).read_bytes() for file in made.record.files] == [
            (made.path / file.path).read_bytes() for file in made.record.files
        ]


@REMOTE
def test_a_file_that_was_altered_in_the_store_is_not_lent(store):
    made = newest(store, UPath(run(Spec(stage="make"), store).uri))
    path = made.path / made.record.files[0].path
    path.write_bytes(b"?" * len(path.read_bytes()))
    with pytest.raises(DataError, match="other bytes than its record says"), local_copy(made.path):
        pass


@S3
def test_a_file_that_this_machine_altered_is_fetched_again(store, tmp_path):
    made = newest(store, UPath(run(Spec(stage="make"), store).uri))
    with local_copy(made.path):
        pass
    file = made.record.files[0]
    (tmp_path / "cache" / "blobs" / file.sha256).write_bytes(b"?" * file.size)
    with local_copy(made.path) as folder:
        assert (folder / file.path).read_bytes() == (made.path / file.path).read_bytes()


@S3
def test_a_second_use_asks_the_store_for_no_file(store, monkeypatch):
    made = newest(store, UPath(run(Spec(stage="make"), store).uri))
    with local_copy(made.path):
        pass
    monkeypatch.setattr("tasks.core.transfer.fetch", None)
    with local_copy(made.path) as folder:
        assert files_below(UPath(folder))


@S3
def test_the_cache_keeps_to_its_size_and_to_what_is_read(store, tmp_path, monkeypatch):
    two = [newest(store, UPath(run(Spec(stage="make", config={"prefix": name}), store).uri)) for name in "ab"]
    blobs, size = tmp_path / "cache" / "blobs", max(one.size_bytes for one in two)
    monkeypatch.setenv("HEADRACE_CACHE_GB", str(1.2 * size / 1e9))
    with local_copy(two[0].path), pytest.raises(ServiceError, match="may hold"), local_copy(two[1].path):
        pass
    with local_copy(two[1].path):
        assert sum(path.stat().st_size for path in blobs.iterdir()) <= 1.2 * size


@S3
def test_a_reader_that_was_killed_keeps_nothing(store, tmp_path):
    made = newest(store, UPath(run(Spec(stage="make"), store).uri))
    program = (
        "import os, time\nfrom upath import UPath\nfrom tasks.core.transfer import local_copy\n"
        f"with local_copy(UPath({str(made.path)!r})) as folder: print(folder, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as reader:
        folder = Path(reader.stdout.readline().strip())
        assert folder.is_dir()
        reader.kill()
    with local_copy(made.path):
        assert not folder.exists()


def write_half(out: UPath) -> None:
    with local_output(out) as folder:
        (folder / "half").write_text("half")
        raise ZeroDivisionError


def test_what_a_library_writes_to_a_folder_lies_in_the_store_unless_it_failed(store):
    out = store.new_attempt("make", "key")
    with pytest.raises(ZeroDivisionError):
        write_half(out)
    with local_output(out) as folder:
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "deep" / "er" / "文件").write_text("whole")
    found = files_below(out)
    assert found.pop("deep/er/文件") == 5
    assert set(found) <= {"half"}  # a local folder is written in place, and thrown away by who runs the stage


@REMOTE
def test_what_a_stage_keeps_between_attempts_lies_on_this_machine(store, tmp_path):
    folder = store.workspace("train", "key")
    assert folder.is_relative_to(tmp_path / "scratch")
    assert folder.name == WORKSPACE
    assert open_store(str(store.root)).workspace("train", "key") == folder
    assert open_store(str(store.root / "another")).workspace("train", "key") != folder


def test_a_remote_path_is_not_taken_for_a_local_one(store):
    if store.root.protocol == "":
        assert local(store.root).is_absolute()
        return
    with pytest.raises(AssertionError, match="not on a local disk"):
        local(store.root)


@REMOTE
def test_of_many_who_want_a_key_each_has_it_alone(store, monkeypatch):
    monkeypatch.setattr(remote_store, "POLL_S", 0.01)
    inside, most, lock = [], [], threading.Lock()

    def work(number: int) -> int:
        with store.locked("make", "key") as lease:
            with lock:
                inside.append(number)
                most.append(len(inside))
            time.sleep(0.05)
            lease.check()
            with lock:
                inside.remove(number)
            return lease.generation

    with ThreadPoolExecutor(6) as pool:
        generations = list(pool.map(work, range(6)))
    assert max(most) == 1
    assert sorted(generations) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("told", ["much", "0", "-1", "nan"])
def test_a_size_of_the_cache_that_is_none_is_refused(monkeypatch, told):
    monkeypatch.setenv("HEADRACE_CACHE_GB", told)
    with pytest.raises(ConfigError, match="HEADRACE_CACHE_GB must be a number above zero"):
        cache_bytes()
