from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tasks.core import workspace
from tasks.core.errors import ConfigError, TryAgain
from tasks.core.lease import Lease
from tasks.training.checkpoint import (
    LATEST,
    MANIFEST,
    Layout,
    commit,
    damage,
    last_step,
    newest_verified,
    prune,
    tag_of,
    tags,
)

LAYOUT = Layout(2, 0)


def write(folder: Path, step: int) -> Path:
    checkpoint = folder / tag_of(step)
    (checkpoint / "inner").mkdir(parents=True)
    (checkpoint / "weights.pt").write_bytes(b"w" * 1000 + bytes([step % 256]))
    (checkpoint / "inner" / "random-0.pt").write_bytes(b"r")
    return checkpoint


@pytest.fixture
def folder(tmp_path) -> Path:
    for step in (100, 200):
        write(tmp_path, step)
        commit(tmp_path, tag_of(step), LAYOUT)
    return tmp_path


def test_the_newest_whole_checkpoint_is_taken(folder):
    assert newest_verified(folder, LAYOUT) == (tag_of(200), [])


def test_an_unfinished_checkpoint_is_left_out_by_name(folder):
    write(folder, 300)
    tag, refused = newest_verified(folder, LAYOUT)
    assert tag == tag_of(200)
    assert refused == ["checkpoint step-00000300 left out: was never finished"]


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda path: path.unlink(), "missing or cut off"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "missing or cut off"),
        (lambda path: path.write_bytes(b"x" + path.read_bytes()[1:]), "was altered"),
    ],
)
def test_a_damaged_file_makes_a_checkpoint_not_count(folder, harm, reason):
    harm(folder / tag_of(200) / "weights.pt")
    tag, refused = newest_verified(folder, LAYOUT)
    assert tag == tag_of(100)
    assert reason in refused[0]


def test_damage_deep_in_a_folder_is_found_too(folder):
    (folder / tag_of(200) / "inner" / "random-0.pt").write_bytes(b"q")
    assert damage(folder / tag_of(200)) == "inner/random-0.pt was altered"


def test_with_nothing_whole_the_run_starts_anew(tmp_path):
    write(tmp_path, 100)
    assert newest_verified(tmp_path, LAYOUT)[0] is None
    assert last_step(tmp_path) == 0


def test_a_folder_that_is_not_there_holds_no_checkpoint(tmp_path):
    assert newest_verified(tmp_path / "none", LAYOUT) == (None, [])


@pytest.mark.parametrize("num_processes", [1, 3])
def test_a_whole_checkpoint_can_be_read_by_any_number_of_processes(folder, num_processes):
    assert newest_verified(folder, Layout(num_processes, 0))[0] == tag_of(200)


@pytest.mark.parametrize(
    ("written", "given"), [(Layout(2, 0), Layout(2, 1)), (Layout(2, 1), Layout(2, 2)), (Layout(2, 1), Layout(4, 1))]
)
def test_a_checkpoint_of_another_layout_is_refused(tmp_path, written, given):
    write(tmp_path, 100)
    commit(tmp_path, tag_of(100), written)
    with pytest.raises(ConfigError, match=f"num_processes=2, zero_stage={written.zero_stage}; given: "):
        newest_verified(tmp_path, given)


def test_the_pointer_names_the_newest_that_counts(folder):
    assert (folder / LATEST).read_text() == tag_of(200) + "\n"


def test_only_the_two_newest_are_kept(folder):
    write(folder, 1000)
    commit(folder, tag_of(1000), LAYOUT)
    prune(folder)
    assert tags(folder) == [tag_of(1000), tag_of(200)]


def test_a_commit_over_an_older_attempt_of_the_same_step_counts(folder):
    shutil.rmtree(folder / tag_of(200))
    write(folder, 200)
    commit(folder, tag_of(200), LAYOUT)
    assert last_step(folder) == 200


def test_a_manifest_says_under_which_generation_it_was_written(folder, tmp_path):
    write(folder, 300)
    with workspace.bound(tmp_path, Lease(str(tmp_path / "lease"), 7)):
        commit(folder, tag_of(300), LAYOUT)
    assert json.loads((folder / tag_of(300) / MANIFEST).read_text())["generation"] == 7


def test_a_checkpoint_of_a_lower_generation_is_refused(folder, tmp_path):
    write(folder, 300)
    (tmp_path / "lease").mkdir()
    (tmp_path / "lease" / "8.json").touch()
    with (
        workspace.bound(tmp_path, Lease(str(tmp_path / "lease"), 7)),
        pytest.raises(TryAgain, match="another one took 8"),
    ):
        commit(folder, tag_of(300), LAYOUT)
    assert newest_verified(folder, LAYOUT)[0] == tag_of(200)
