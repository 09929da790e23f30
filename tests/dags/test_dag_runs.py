"""What ``airflow dags test`` asks of the stages, and how it ends; the stages themselves are a stub."""

import json

import pytest


@pytest.fixture(scope="module")
def ran(stubbed):
    """A run that goes well, with a dial, an override and a stage that is forced."""
    conf = {"hum.times": 5, "overrides": {"echo.after": "and"}, "force": ["echo"]}
    run = stubbed.dags_test("song", **conf)
    assert run.returncode == 0, run.stdout
    asked = stubbed.root / "requests.jsonl"
    requests = [json.loads(line) for line in asked.read_text().splitlines()]
    asked.unlink()
    links = stubbed.xcoms("artifact_link")
    return requests, stubbed.xcoms("return_value"), stubbed.xcoms("mlflow_link"), run.stdout, links


def request(ran, verb, stage=None):
    return next(one for one in ran[0] if one["verb"] == verb and one.get("stage") == stage)


def test_pin_comes_first_and_close_last(ran):
    assert [(one["verb"], one.get("stage")) for one in ran[0]] == [
        ("pin", None),
        ("run", "hum"),
        ("run", "echo"),
        ("close", None),
    ]


def test_pin_sees_the_resolved_knobs_of_every_stage(ran):
    pin = request(ran, "pin")
    assert pin["pipeline"] == "song"
    assert pin["configs"] == {
        "hum": {"times": 5, "key": None, "word": "hum", "voices": 1},
        "echo": {"after": "and"},
    }


def test_a_stage_gets_its_knobs_and_what_pin_saw(ran):
    hum = request(ran, "run", "hum")
    assert hum["config"] == {"times": 5, "key": None, "word": "hum", "voices": 1}
    assert hum["fingerprint"] == {"air": "fresh"}
    assert hum["run"]["mlflow_run_id"] == "parent"
    assert hum["force"] is False


def test_a_stage_gets_the_artifact_of_the_one_before(ran):
    echo = request(ran, "run", "echo")
    assert echo["inputs"] == {"tune": "/store/hum"}
    assert echo["fingerprint"] is None
    assert echo["force"] is True


def test_only_the_address_and_the_small_result_go_to_xcom(ran):
    handed_on = ran[1]["hum"]
    assert handed_on["uri"] == "/store/hum"
    assert handed_on["result"] == {"num_chars": 7}
    assert set(handed_on) == {"stage", "uri", "cached", "reason", "result", "mlflow_run_id", "mlflow_url"}


def test_a_cached_task_says_why_and_how_to_override(ran):
    assert "to make it again: trigger with force" in ran[3]
    assert "force" in ran[3]


def test_every_task_links_to_its_mlflow_run(ran):
    parent = "http://m/parent"
    assert ran[2] == {"pin": parent, "hum": "http://m/hum", "echo": "http://m/echo", "close": parent}


def test_a_task_that_hands_on_an_artifact_links_to_its_page(ran):
    page = "/plugin/artifacts/headrace/store"
    assert ran[4] == {"hum": f"{page}/hum", "echo": f"{page}/echo"}


def test_close_hears_that_all_went_well_and_what_was_cached(ran):
    close = request(ran, "close")
    assert close["status"] == "FINISHED"
    assert {one["stage"]: one["cached"] for one in close["outcomes"]} == {"hum": False, "echo": True}


@pytest.fixture(scope="module")
def failed(ran, stubbed):
    """A run whose first stage refuses."""
    run = stubbed.dags_test("song", overrides={"hum.word": "refuse"})
    requests = [json.loads(line) for line in (stubbed.root / "requests.jsonl").read_text().splitlines()]
    return run, requests


def test_a_failed_stage_fails_the_command(failed):
    assert failed[0].returncode != 0


def test_the_last_five_lines_of_a_failed_run_say_what_to_do(failed):
    assert failed[0].stdout.splitlines()[-5:] == [
        "stage: hum",
        "cause: out of tune",
        "input: none",
        "next step: tune it",
        "reproduce: hum",
    ]


def test_what_a_stage_said_before_it_failed_is_in_the_log(failed):
    assert "working, then a long story" in failed[0].stdout


def test_nothing_runs_after_a_failed_stage_but_close_which_hears_of_it(failed):
    assert [(one["verb"], one.get("stage")) for one in failed[1]] == [("pin", None), ("run", "hum"), ("close", None)]
    assert failed[1][-1]["status"] == "FAILED"
