import os
from pathlib import Path

import pytest
from upath import UPath

from tasks import __main__ as command
from tasks.core.artifact import newest
from tasks.core.runner import Spec, run


@pytest.fixture
def made(store):
    """An artifact of two stages' pipeline: documents and their count."""
    documents = run(Spec(stage="make"), store)
    run(Spec(stage="count", inputs={"documents": documents.uri}), store)
    return documents


@pytest.fixture
def check(store):
    """``python -m tasks check …``: its exit code."""
    return lambda *arguments: command.main(["check", "--store", str(store.root), *arguments])


def file_of(store, made, name: str = "first.txt") -> Path:
    """A file of a published artifact."""
    return Path(str(newest(store, UPath(made.uri)).path / name))


def run_both(store, **knobs):
    """The two stages again: whether each was cached."""
    documents = run(Spec(stage="make", config=knobs), store)
    return documents.cached, run(Spec(stage="count", inputs={"documents": documents.uri}), store).cached


def test_a_whole_store_is_one_line_and_no_error(made, check, capsys):
    assert check() == 0
    assert capsys.readouterr().out.startswith("2 artifacts in ")


def test_a_store_that_is_not_there_holds_nothing(check, capsys):
    assert check() == 0
    assert capsys.readouterr().out.startswith("0 artifacts in ")


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (lambda path: path.unlink(), "first.txt is gone"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "first.txt has 9 bytes instead of 10"),
        (lambda path: path.write_bytes(b"H" + path.read_bytes()[1:]), "first.txt has other bytes: "),
    ],
)
def test_each_kind_of_damage_is_named_with_its_artifact(store, made, check, capsys, harm, problem):
    harm(file_of(store, made))
    assert check("all") == 3
    told = capsys.readouterr()
    assert told.out.startswith(f"{made.uri}: {problem}")
    assert told.out.count("\n") == 1
    assert "1 files of 1 artifacts are damaged" in told.err


def test_only_the_named_artifact_is_read(store, made, check):
    count = run(Spec(stage="count", inputs={"documents": made.uri}), store)
    file_of(store, made).unlink()
    assert check(count.uri) == 0
    assert check(made.uri) == 3


def test_an_artifact_that_is_not_there_is_an_error(store, check):
    assert check(f"{store.root}/make/nothing") == 3


def test_after_one_byte_was_cut_off_only_that_stage_runs_again(store, made, check):
    os.truncate(file_of(store, made), 9)
    assert run_both(store) == (False, True)
    assert check() == 0


def test_what_depends_on_it_runs_again_when_the_new_bytes_differ(store, made):
    os.truncate(file_of(store, made), 9)
    assert run_both(store, luck=", and the better one") == (False, False)


def test_damage_that_no_size_shows_is_mended_by_the_command_that_check_names(store, made, check, capsys):
    path = file_of(store, made)
    path.write_bytes(b"H" + path.read_bytes()[1:])
    assert run_both(store) == (True, True)
    assert check() == 3
    assert "--force make" in capsys.readouterr().err
    run(Spec(stage="make", force=True), store)
    assert check() == 0
    assert run_both(store) == (True, True)
