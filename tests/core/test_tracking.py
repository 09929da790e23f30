import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from tasks.core import mlflow_runs, tracking_process
from tasks.core.errors import ServiceError
from tasks.core.mlflow_runs import RunContext, params_in
from tasks.core.runner import Spec, run
from tasks.core.store import REPOSITORY
from tasks.core.tracking import Tracker

CONTEXT = RunContext(pipeline="toy", run_id="run 1")
OTHER = RunContext(pipeline="toy", run_id="run 2")


@pytest.fixture(autouse=True)
def database(tmp_path, monkeypatch, mlflow_database):
    """A tracking database and a spool of its own."""
    monkeypatch.setenv("HEADRACE_SPOOL", str(tmp_path / "spool"))


def runs() -> list:
    client = mlflow_runs.client()
    return client.search_runs([mlflow_runs.experiment_of(client, "toy")])


def stage_runs() -> list:
    return [one for one in runs() if one.data.tags["headrace.stage"]]


@pytest.fixture
def outage(monkeypatch):
    """Nobody listens where MLflow should be; the function that comes back ends it."""
    uri = os.environ["MLFLOW_TRACKING_URI"]
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{closed.getsockname()[1]}")
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        yield lambda: monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)


def test_a_stage_has_one_run_with_knobs_numbers_and_samples(store):
    for force in (False, True):
        run(Spec(stage="make", force=force, run=CONTEXT), store)
    (only,) = stage_runs()
    assert only.info.status == "FINISHED"
    assert only.data.params["num_documents"] == "3"
    assert (only.data.metrics["rate"], only.data.metrics["num_documents"]) == (3.0, 3.0)
    assert only.data.tags["headrace.stage"] == "make"


def test_a_parameter_of_ten_thousand_characters_is_cut_and_stops_nothing(store):
    outcome = run(Spec(stage="make", config={"prefix": "長" * 10_000}, run=CONTEXT), store)
    (only,) = stage_runs()
    assert only.info.status == "FINISHED"
    assert len(only.data.params["prefix"]) == mlflow_runs.MAX_PARAM_CHARS
    assert outcome.mlflow_run_id == only.info.run_id


def test_nested_knobs_have_dotted_names():
    assert dict(params_in({"split": {"test": 0.1}, "many": [1, 2]})) == {"split.test": "0.1", "many": "[1, 2]"}
    assert dict(params_in({"split": {}})) == {"split": "{}"}
    assert dict(params_in({})) == {}


def test_a_failed_stage_has_a_failed_run(store):
    with pytest.raises(ZeroDivisionError):
        run(Spec(stage="make", config={"fail": "bug"}, run=CONTEXT), store)
    assert stage_runs()[0].info.status == "FAILED"


@pytest.mark.usefixtures("outage")
def test_a_tracker_that_cannot_be_reached_stops_nothing(store, capfd):
    outcome = run(Spec(stage="make", run=CONTEXT), store)
    assert (outcome.cached, outcome.mlflow_run_id) == (False, "")
    assert "warning: MLflow: not tracked now" in capfd.readouterr().err


def test_a_tracker_that_hangs_does_not_hold_up_what_a_stage_says(monkeypatch):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        with Tracker(CONTEXT, "make", {}, {}) as tracker:
            for step in range(5_000):
                tracker.sample("text", "x" * 100 + str(step))
            assert tracker.run_id == ""


def test_the_run_of_a_stage_that_was_killed_is_closed_as_killed():
    code = (
        "from tasks.core.mlflow_runs import RunContext\nfrom tasks.core.tracking import Tracker\nimport time\n"
        "with Tracker(RunContext(pipeline='toy', run_id='run 2'), 'make', {}, {}) as tracker:\n"
        "    print(tracker.run_id, flush=True)\n    time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        run_id = process.stdout.readline().strip()
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while (status := mlflow_runs.client().get_run(run_id).info.status) == "RUNNING" and time.monotonic() < deadline:
        time.sleep(0.2)
    assert status == "KILLED"


def test_closing_adds_cached_children_and_ends_what_was_left_open():
    parent = mlflow_runs.open_parent("toy", "run 3")
    context = RunContext(pipeline="toy", run_id="run 3", mlflow_run_id=parent["mlflow_run_id"])
    left = mlflow_runs.open_run(mlflow_runs.client(), context, "left", {})
    cached = {"stage": "make", "mlflow_run_id": "made-by", "result": {"num_documents": 7}}
    mlflow_runs.close(context, "FAILED", [cached])
    by_stage = {one.data.tags["headrace.stage"]: one for one in runs()}
    assert by_stage[""].info.status == "FAILED"
    assert by_stage["left"].info.run_id == left.info.run_id
    assert by_stage["left"].info.status == "KILLED"
    assert by_stage["make"].data.tags["headrace.cached"] == "true"
    assert by_stage["make"].data.metrics["num_documents"] == 7.0
    assert json.loads(json.dumps(by_stage["make"].data.tags))["headrace.made_by"] == "made-by"


def spooled(tmp_path) -> list:
    return list((tmp_path / "spool").glob("*.jsonl"))


def test_what_an_outage_kept_back_is_written_when_mlflow_is_there_again(store, tmp_path, outage):
    run(Spec(stage="make", run=CONTEXT), store)
    with pytest.raises(ZeroDivisionError):
        run(Spec(stage="make", config={"fail": "bug", "prefix": "x"}, run=OTHER), store)
    assert len(spooled(tmp_path)) == 2
    outage()
    assert tracking_process.replay() == 2
    assert spooled(tmp_path) == []
    by_name = {(one.data.tags["headrace.run"], one.data.tags["headrace.stage"]): one for one in runs()}
    made = by_name["run 1", "make"]
    assert (made.info.status, made.data.metrics["rate"], made.data.params["num_documents"]) == ("FINISHED", 3.0, "3")
    assert made.data.tags["mlflow.parentRunId"] == by_name["run 1", ""].info.run_id
    assert by_name["run 1", ""].info.status == "FINISHED"
    assert {by_name["run 2", name].info.status for name in ("", "make")} == {"FAILED"}


def test_a_run_that_was_written_leaves_nothing_in_the_spool(store, tmp_path):
    run(Spec(stage="make", run=CONTEXT), store)
    assert spooled(tmp_path) == []
    assert tracking_process.replay() == 0


@pytest.mark.usefixtures("outage")
def test_a_replay_that_cannot_reach_mlflow_keeps_everything_and_says_so(store, tmp_path):
    run(Spec(stage="make", run=CONTEXT), store)
    with pytest.raises(ServiceError, match="cannot take what was kept"):
        tracking_process.replay()
    assert len(spooled(tmp_path)) == 1


def test_what_a_killed_tracking_process_should_have_written_is_not_lost():
    with Tracker(CONTEXT, "make", {"size": 4}, {}) as tracker:
        tracker.metric("loss", 2.5, 7)
        assert tracker.run_id
        tracker._process.kill()
        tracker._process.wait()
        tracker.metric("loss", 2.25, 8)
    assert tracking_process.replay() == 1
    (made,) = stage_runs()
    assert (made.info.status, made.data.metrics["loss"], made.data.params["size"]) == ("FINISHED", 2.25, "4")


def test_a_spool_that_is_being_written_is_not_replayed(tmp_path):
    with Tracker(CONTEXT, "make", {}, {}):
        assert len(spooled(tmp_path)) == 1
        assert tracking_process.replay() == 0
    assert [one.info.status for one in stage_runs()] == ["FINISHED"]


def test_what_an_older_attempt_left_behind_does_not_undo_how_the_stage_ended(store, outage):
    with Tracker(CONTEXT, "make", {}, {}) as killed:
        killed.metric("loss", 2.5, 7)
        killed._send({"kind": "end", "status": "KILLED"})
    outage()
    run(Spec(stage="make", run=CONTEXT), store)
    assert tracking_process.replay() == 1
    (made,) = stage_runs()
    assert (made.info.status, made.data.metrics["loss"]) == ("FINISHED", 2.5)


@pytest.fixture
def clock(monkeypatch):
    """Sets the clock back by seconds."""
    return lambda seconds, real=time.time: monkeypatch.setattr(time, "time", lambda: real() - seconds)


def test_a_retry_ends_the_run_of_its_stage_though_the_clock_was_set_back(clock):
    for seconds, status in ((0, "FAILED"), (3600, "FINISHED")):
        clock(seconds)
        with suppress(ZeroDivisionError), Tracker(CONTEXT, "make", {}, {}):
            assert status == "FINISHED" or 1 / 0
    assert [one.info.status for one in stage_runs()] == ["FINISHED"]


def test_what_is_closed_stays_closed_though_the_clock_was_set_back(clock, outage):
    with Tracker(CONTEXT, "make", {}, {}) as killed:
        killed._send({"kind": "end", "status": "KILLED"})
    outage()
    clock(3600)
    parent = mlflow_runs.open_parent("toy", "run 1")["mlflow_run_id"]
    found = {"stage": "make", "mlflow_run_id": "", "result": {"num_documents": 3}}
    with Tracker(CONTEXT, "make", {}, {}):
        pass
    mlflow_runs.close(RunContext(pipeline="toy", run_id="run 1", mlflow_run_id=parent), "FINISHED", [found])
    tracking_process.replay()
    assert [one.info.status for one in stage_runs()] == ["FINISHED"]


def test_a_stage_that_was_killed_after_it_had_published_stays_finished_when_its_words_come_late(outage):
    with Tracker(CONTEXT, "make", {}, {}) as killed:
        killed._send({"kind": "end", "status": "KILLED"})
    outage()
    parent = mlflow_runs.open_parent("toy", "run 1")["mlflow_run_id"]
    found = {"stage": "make", "mlflow_run_id": "", "result": {"num_documents": 3}}
    mlflow_runs.close(RunContext(pipeline="toy", run_id="run 1", mlflow_run_id=parent), "FINISHED", [found])
    assert tracking_process.replay() == 1
    assert [one.info.status for one in stage_runs()] == ["FINISHED"]
