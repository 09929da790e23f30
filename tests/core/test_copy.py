import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from upath import UPath

from tasks import __main__ as command
from tasks.core import gc
from tasks.core.artifact import newest, publish
from tasks.core.check import check
from tasks.core.copy import copy
from tasks.core.errors import DataError
from tasks.core.runner import Spec, run
from tasks.core.store import REPOSITORY, open_store


@pytest.fixture
def target(tmp_path):
    """Another store."""
    return open_store(str(tmp_path / "target"))


@pytest.fixture
def count(store):
    """An artifact that was made from another."""
    documents = run(Spec(stage="make"), store)
    return run(Spec(stage="count", inputs={"documents": documents.uri}), store)


def attempts(store) -> list[Path]:
    return [one for one in Path(store.root.path).glob("*/*/2*") if one.is_dir()]


def test_a_copy_is_the_same_artifact_and_says_where_it_came_from(store, target, count):
    copied, source = copy(store, count.uri, target), newest(store, UPath(count.uri))
    assert copied.uri == f"{target.root}/count/{Path(count.uri).name}"
    assert (copied.record.files, copied.record.content_digest) == (source.record.files, source.record.content_digest)
    assert copied.record.inputs == source.record.inputs
    assert copied.record.made["copied_from"] == count.uri
    assert check([copied]) == []


def test_the_target_takes_the_copy_for_made(store, target):
    made = run(Spec(stage="make"), store)
    copy(store, made.uri, target)
    assert run(Spec(stage="make"), target).cached


def test_copying_twice_copies_once(store, target, count):
    first, second = copy(store, count.uri, target), copy(store, count.uri, target)
    assert (first.number, second.number) == (1, 1)
    assert len(attempts(target)) == 1


def test_other_bytes_of_the_same_key_become_the_next_record(store, target):
    run(Spec(stage="make", config={"luck": " and more"}), target)
    copied = copy(store, run(Spec(stage="make"), store).uri, target)
    assert copied.number == 2
    assert (copied.path / "first.txt").read_text() == "half of it"


def test_a_copy_that_was_damaged_is_mended(store, target, count):
    path = Path(str(copy(store, count.uri, target).path / "count.txt"))
    path.write_bytes(b"9" + path.read_bytes()[1:])
    assert check([copy(store, count.uri, target)]) == []


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (lambda path: path.unlink(), "count.txt is gone"),
        (lambda path: path.write_bytes(b"9" + path.read_bytes()[1:]), "count.txt has other bytes"),
    ],
)
def test_a_damaged_source_is_refused_and_nothing_is_left(store, target, count, harm, problem, capsys):
    harm(Path(str(newest(store, UPath(count.uri)).path / "count.txt")))
    assert command.main(["copy", count.uri, str(target.root), "--store", str(store.root)]) == 3
    assert problem in capsys.readouterr().err
    assert target.artifacts("count") == []
    assert attempts(target) == []


def test_a_record_cannot_make_files_outside_of_its_artifact(store, target, count, tmp_path):
    found = newest(store, UPath(count.uri))
    values = json.loads(found.record.to_json())
    values["files"][0]["path"] = "../../../../secret.txt"
    publish(store, type(found.record).from_json(values), after=1, adopt=False)
    (tmp_path / "secret.txt").write_text("4 documents\n")
    with pytest.raises(DataError, match="lies outside of its artifact"):
        copy(store, count.uri, target)


def test_a_copy_stays_though_nothing_in_the_target_leads_to_it(store, target, count):
    copied = copy(store, count.uri, target)
    assert gc.collect(target, ()) == []
    Path(target.root.path, "pins", f"count-{Path(copied.uri).name}.json").unlink()
    assert [one.kind for one in gc.collect(target, ())] == [gc.MARKED]


def test_a_copy_that_was_killed_shows_nothing_and_the_next_one_succeeds(store, target, count):
    program = (
        "import time\nfrom tasks.core import copy\nfrom tasks.core.store import LocalStore, open_store\n"
        "LocalStore.make_durable = lambda self, folder: (print(folder, flush=True), time.sleep(60))\n"
        f"copy.copy(open_store({store.root.path!r}), {count.uri!r}, open_store({target.root.path!r}))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as copying:
        copying.stdout.readline()
        copying.send_signal(signal.SIGKILL)
    assert target.artifacts("count") == []
    assert copy(store, count.uri, target).number == 1
