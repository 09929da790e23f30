import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from upath import UPath

import tasks
from tasks import __main__ as command
from tasks.core import runner
from tasks.core.artifact import newest, publish
from tasks.core.errors import ConfigError, DataError, ServiceError
from tasks.core.runner import Spec, explain_failure, run
from tasks.core.store import REPOSITORY, open_store

TOY = Path(__file__).parent / "toy"


def attempts(store, stage: str) -> list[Path]:
    """Folders of attempts of a stage, published or not."""
    return [one for one in Path(store.root.path).glob(f"{stage}/*/2*") if one.is_dir()]


def test_the_second_run_finds_the_first_ones_artifact(store):
    first, second = run(Spec(stage="make"), store), run(Spec(stage="make"), store)
    assert (first.cached, second.cached) == (False, True)
    assert (first.uri, first.result, first.content_digest) == (second.uri, second.result, second.content_digest)


def test_a_runtime_knob_changes_nothing_and_a_plain_one_the_key(store):
    first = run(Spec(stage="make"), store)
    assert run(Spec(stage="make", config={"workers": 7}), store).cached
    other = run(Spec(stage="make", config={"prefix": "word"}), store)
    assert (other.cached, other.uri != first.uri) == (False, True)


def test_equal_bytes_upstream_keep_what_follows_cached(store):
    made = run(Spec(stage="make", config={"num_documents": 0}), store)
    run(Spec(stage="count", inputs={"documents": made.uri}), store)
    again = run(Spec(stage="make", config={"num_documents": 0, "prefix": "other"}), store)
    assert not again.cached
    assert again.content_digest == made.content_digest
    assert run(Spec(stage="count", inputs={"documents": again.uri}), store).cached


def test_force_makes_it_again_as_the_next_record(store):
    run(Spec(stage="make"), store)
    forced = run(Spec(stage="make", force=True), store)
    assert not forced.cached
    found = newest(store, store.artifact("make", Path(forced.uri).name))
    assert found.number == 2


def test_a_check_runs_each_time(store):
    made = run(Spec(stage="make"), store)
    count = run(Spec(stage="count", inputs={"documents": made.uri}), store)
    checks = [run(Spec(stage="check", inputs={"count": count.uri}), store) for _ in range(2)]
    assert [one.cached for one in checks] == [False, False]


def test_the_world_outside_is_part_of_the_key(store, tmp_path):
    world = tmp_path / "world.txt"
    world.write_text("one")
    first = run(Spec(stage="make", config={"world": str(world)}), store)
    world.write_text("one\ntwo")
    second = run(Spec(stage="make", config={"world": str(world)}), store)
    assert first.uri != second.uri
    assert "source world changed from 'one' to 'one\\ntwo'" in second.reason


def test_a_world_that_changed_since_pin_is_refused(store, tmp_path):
    world = tmp_path / "world.txt"
    world.write_text("two")
    with pytest.raises(DataError, match="changed since this run was pinned: world"):
        run(Spec(stage="make", config={"world": str(world)}, fingerprint={"world": "one"}), store)


@pytest.mark.parametrize(("fail", "error"), [("data", DataError), ("disk", ServiceError), ("bug", ZeroDivisionError)])
def test_a_failed_stage_publishes_nothing_and_leaves_nothing(store, fail, error):
    with pytest.raises(error):
        run(Spec(stage="make", config={"fail": fail}), store)
    assert attempts(store, "make") == []
    assert store.artifacts("make") == []


def test_a_full_disk_is_a_missing_service_that_says_what_to_do(store):
    with pytest.raises(ServiceError, match="disk cannot take") as caught:
        run(Spec(stage="make", config={"fail": "disk"}), store)
    assert "free space" in caught.value.next_step
    assert caught.value.retry


def test_a_really_full_disk_publishes_nothing(tmp_path):
    mount = tmp_path / "small"
    mount.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(mount)], capture_output=True)
    if made.returncode:
        assert not os.environ.get("CI"), "CI must be able to mount a small disk"
        pytest.skip(f"cannot mount a small disk here: {made.stderr.decode().strip()}")
    try:
        small = open_store(str(mount / "store"))
        with pytest.raises(ServiceError):
            run(Spec(stage="make", config={"num_documents": 1000, "prefix": os.urandom(400).hex()}), small)
        assert small.artifacts("make") == []
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_that_there_is_nothing_to_do_is_an_outcome_where_a_pipeline_asked(store, tmp_path, mlflow_database):
    request = {"stage": "make", "config": {"fail": "nothing"}, "outcome": str(tmp_path / "outcome.json")}
    asked = {"run": {"pipeline": "toy", "run_id": "tonight", "mlflow_run_id": ""}}
    codes = []
    for number, one in enumerate([request, request | asked]):
        (tmp_path / f"{number}.json").write_text(json.dumps(one))
        codes.append(
            command.main(["run", "make", "--store", str(store.root), "--spec", str(tmp_path / f"{number}.json")])
        )
    assert codes == [3, 0]
    assert json.loads((tmp_path / "outcome.json").read_text()) == {"nothing_new": "nothing has come"}


def test_wrong_inputs_are_named(store):
    with pytest.raises(ConfigError, match="stage count reads documents; given: docs"):
        run(Spec(stage="count", inputs={"docs": "x"}), store)


def test_an_input_may_be_left_out_where_the_stage_says_so_and_counts_where_it_is_given(store):
    made = run(Spec(stage="make"), store)
    count = run(Spec(stage="count", inputs={"documents": made.uri}), store)
    without = run(Spec(stage="check", inputs={"count": count.uri}), store)
    given = run(Spec(stage="check", inputs={"before": count.uri, "count": count.uri}), store)
    assert without.uri != given.uri
    assert list(newest(store, UPath(without.uri)).record.identity.inputs) == ["count"]
    assert list(newest(store, UPath(given.uri)).record.identity.inputs) == ["count", "before"]
    with pytest.raises(ConfigError, match=r"stage check reads count, before \(optional\); given: before"):
        run(Spec(stage="check", inputs={"before": count.uri}), store)


def test_a_missing_input_is_named(store):
    with pytest.raises(DataError, match="there is no artifact at"):
        run(Spec(stage="count", inputs={"documents": str(store.root / "make" / "nothing")}), store)


def test_a_truncated_artifact_is_made_again(store):
    made = run(Spec(stage="make"), store)
    found = newest(store, store.artifact("make", Path(made.uri).name))
    path = Path(str(found.path / found.record.files[0].path))
    path.write_bytes(path.read_bytes()[:-1])
    again = run(Spec(stage="make"), store)
    assert (again.cached, again.content_digest) == (False, made.content_digest)
    assert "bytes instead of" in again.reason


def test_two_runs_at_once_make_one_artifact(store):
    outcomes = []
    spec = Spec(stage="make", config={"pause_s": 0.3})
    both = [threading.Thread(target=lambda: outcomes.append(run(spec, store))) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert sorted(one.cached for one in outcomes) == [False, True]
    assert len(attempts(store, "make")) == 1


def test_two_processes_at_once_make_one_artifact(store):
    code = program(store, "{'pause_s': 0.5}")
    both = [subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY) for _ in range(2)]
    assert [one.wait(60) for one in both] == [0, 0]
    assert len(attempts(store, "make")) == 1
    assert store.record_numbers(store.artifacts("make")[0]) == [1]


def program(store, config: str) -> str:
    """A program that runs the stage ``make``."""
    return (
        f"import tasks; tasks.__path__.append({str(TOY)!r})\n"
        "from tasks.core.runner import Spec, run\nfrom tasks.core.store import open_store\n"
        f"run(Spec(stage='make', config={config}), open_store({str(store.root)!r}))"
    )


def test_an_error_after_publishing_leaves_the_artifact_alone(store, monkeypatch):
    def publish_and_break(*arguments, **named):
        publish(*arguments, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "publish", publish_and_break)
    with pytest.raises(KeyboardInterrupt):
        run(Spec(stage="make"), store)
    monkeypatch.undo()
    monkeypatch.setattr(tasks, "__path__", [*tasks.__path__, str(TOY)])
    assert run(Spec(stage="make"), store).cached


def test_force_begins_with_an_empty_workspace_and_its_retry_continues(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "old").touch()
    runner.begin_again(folder, "run 1")
    assert not (folder / "old").exists()
    (folder / "checkpoint").touch()
    runner.begin_again(folder, "run 1")
    assert (folder / "checkpoint").exists()
    runner.begin_again(folder, "run 2")
    assert not (folder / "checkpoint").exists()


def test_a_killed_run_shows_nothing_and_the_next_one_succeeds(store):
    process = subprocess.Popen([sys.executable, "-c", program(store, "{'pause_s': 30}")], cwd=REPOSITORY)
    deadline = time.monotonic() + 60
    while not attempts(store, "make") and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(attempts(store, "make")) == 1
    assert store.artifacts("make") == []
    assert not run(Spec(stage="make"), store).cached


def test_the_five_lines_name_stage_cause_input_next_step_and_command():
    error = DataError("the data is bad\nin two lines", subject="row 7", next_step="mend row 7")
    lines = explain_failure(error, Spec(stage="make"), "python -m tasks run make --spec s.json")
    assert lines == [
        "stage: make",
        "cause: the data is bad · in two lines",
        "input: row 7",
        "next step: mend row 7",
        "reproduce: python -m tasks run make --spec s.json",
    ]


def test_the_record_says_where_the_artifact_came_from(store):
    made = run(Spec(stage="make"), store)
    record = newest(store, store.artifact("make", Path(made.uri).name)).record
    assert record.measured["rate"] == 3.0
    assert record.made["libraries"]["pyarrow"]
    assert "tasks.core.documents" in record.made["source"]
    assert {file.path for file in record.files} >= {"first.txt", "documents/part-00000.parquet"}
