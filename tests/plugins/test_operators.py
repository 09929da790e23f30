"""What an operator makes of its command's end, and what it refuses before it starts one."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from plugins.operators import last_words
from plugins.operators.backends import LocalJob
from plugins.operators.pins import pinned
from plugins.operators.stage import StageOperator
from plugins.params import params_of
from tasks.core.errors import FIVE_LINES

ROOT = Path(__file__).parents[2]
WORDS = ["stage: hum", "cause: out of tune", "input: none", "next step: tune it", "reproduce: hum"]


@pytest.fixture(autouse=True)
def silence():
    """Nobody speaks when the tests end."""
    yield
    last_words._words.clear()


@pytest.fixture
def hum(song):
    with DAG("song", schedule=None, params=params_of(str(song))):
        return StageOperator(stage="hum", pipeline=str(song))


def context_of(operator, *, xcom=None, **conf):
    """What Airflow gives a task of a run triggered with ``conf``."""
    return {
        "dag": operator.dag,
        "dag_run": SimpleNamespace(conf=conf),
        "params": {**{name: param.value for name, param in operator.dag.params.items()}, **conf},
        "run_id": "tonight",
        "ti": SimpleNamespace(xcom_pull=lambda task_ids: xcom),
    }


def run(operator):
    return operator.run_command(["run", "hum"], {"stage": "hum", "inputs": {}}, context_of(operator))


def test_the_outcome_is_what_the_command_writes(hum, tasks_command):
    tasks_command(
        "import json, pathlib, sys\n"
        "request = json.load(sys.stdin)\n"
        "pathlib.Path(request['outcome']).write_text(json.dumps({'uri': 'u', 'mlflow_url': 'http://m/1'}))"
    )
    assert run(hum)["uri"] == "u"
    assert hum.operator_extra_links[0].get_link(hum, ti_key=None) == "http://m/1"


@pytest.mark.parametrize(("code", "retried"), [(1, False), (2, False), (3, False), (4, True), (75, True)])
def test_only_a_missing_service_and_an_interruption_are_tried_again(hum, tasks_command, code, retried):
    tasks_command(f"raise SystemExit({code})")
    with pytest.raises(AirflowException) as caught:
        run(hum)
    assert isinstance(caught.value, AirflowFailException) is not retried


def test_the_last_words_of_a_stage_are_said_again_at_the_end(hum, tasks_command):
    tasks_command(f"print('working'); print(*{WORDS!r}, sep='\\n'); raise SystemExit(3)")
    with pytest.raises(AirflowFailException, match="cause: out of tune"):
        run(hum)
    assert last_words._words == {"hum": WORDS}


def test_a_stage_that_was_killed_gets_last_words_with_a_command_that_runs_as_it_stands(hum, tasks_command):
    folder = tasks_command("import os, sys; print(len(sys.stdin.read()), flush=True); os.kill(os.getpid(), 9)")
    with pytest.raises(AirflowFailException, match="killed by SIGKILL"):
        run(hum)
    words = last_words._words["hum"]
    assert [line.partition(": ")[0] for line in words] == list(FIVE_LINES)
    assert "memory" in words[3]
    command = words[4].removeprefix("reproduce: ")
    again = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=False)
    assert int(again.stdout) > 0


def test_a_retry_that_goes_well_takes_the_last_words_back(hum, tasks_command):
    folder = tasks_command("import pathlib; raise SystemExit(0 if pathlib.Path('mended').exists() else 4)")
    with pytest.raises(AirflowException):
        run(hum)
    assert last_words._words
    (folder / "mended").touch()
    run(hum)
    assert not last_words._words


def test_a_killed_task_never_turns_green(hum, tasks_command):
    """The stage ends well although it was told to stop; Airflow must not take that for a success."""
    tasks_command(
        "import signal, time; signal.signal(signal.SIGTERM, lambda *_: exit(0)); print('up'); time.sleep(600)"
    )
    took_s = []

    def kill():
        while hum._job is None:
            time.sleep(0.05)
        time.sleep(1)
        asked = time.monotonic()
        hum.on_kill()
        took_s.append(time.monotonic() - asked)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(AirflowException, match="stopped by Airflow"):
        run(hum)
    killer.join()
    assert took_s[0] < 0.5


def test_ctrl_c_lets_go_of_the_command_and_is_not_tried_again(hum, monkeypatch):
    class Interrupted:
        stopped = False

        def lines(self):
            raise KeyboardInterrupt

        def stop(self):
            self.stopped = True

    job = Interrupted()
    monkeypatch.setattr("plugins.operators.command.backend_for", lambda stage: lambda *request: job)
    with pytest.raises(AirflowFailException, match="interrupted"):
        run(hum)
    assert job.stopped


def test_a_kill_while_the_command_is_being_started_is_not_lost(hum, tasks_command, monkeypatch):
    tasks_command("import time; time.sleep(600)")

    def slow_start(*request):
        job = LocalJob(*request)
        hum.on_kill()
        return job

    monkeypatch.setattr("plugins.operators.command.backend_for", lambda stage: slow_start)
    with pytest.raises(AirflowException, match="stopped by Airflow"):
        run(hum)


@pytest.mark.parametrize(("code", "cause"), [(137, "killed by SIGKILL"), (255, "ended with exit code 255")])
def test_an_exit_code_is_told_as_what_it_is(hum, code, cause):
    assert hum.words_of_the_dead(code, ["run", "hum"], {})[1] == f"cause: {cause}"


def test_all_wrong_knobs_of_a_run_are_told_at_once(hum):
    context = context_of(hum, **{"hum.times": 0, "overrides": {"echo.afer": "x"}})
    with pytest.raises(AirflowFailException) as caught:
        hum.configs(context)
    assert "hum.times: must be greater than 0 (got 0)" in str(caught.value)
    assert "did you mean echo.after?" in str(caught.value)
    assert last_words._words["hum"][4].startswith("reproduce: bin/run-dag song ")


def test_a_misspelled_parameter_of_a_run_is_refused_with_a_suggestion(hum):
    with pytest.raises(AirflowFailException, match="froce: no such parameter; did you mean force"):
        hum.configs(context_of(hum, froce=["hum"]))


def test_an_override_wins_over_the_dial_of_the_same_name(hum):
    context = context_of(hum, **{"hum.times": 5, "overrides": {"hum.times": 7}})
    assert hum.configs(context)["hum"]["times"] == 7


def test_the_yaml_beside_the_dag_is_the_default(hum):
    assert hum.configs(context_of(hum))["hum"]["times"] == 2


@pytest.mark.parametrize(("force", "forced"), [([], False), (["echo"], False), (["hum"], True), (["all"], True)])
def test_force_names_stages(hum, force, forced):
    assert hum.spec(context_of(hum, force=force))["force"] is forced


def test_a_task_before_that_made_no_artifact_is_named(song):
    with DAG("song", schedule=None, params=params_of(str(song))):
        echo = StageOperator(stage="echo", inputs={"tune": None}, pipeline=str(song))
    with pytest.raises(AirflowFailException, match="no artifact was handed on for: tune"):
        echo.spec(context_of(echo))


def test_an_unknown_backend_is_told_before_anything_starts(hum, monkeypatch):
    monkeypatch.setenv("AIRFLOW__HEADRACE__BACKEND", "moon")
    with pytest.raises(AirflowFailException, match="no such backend: 'moon'"):
        run(hum)


def test_close_that_finds_nothing_opened_does_nothing(song):
    with DAG("song", schedule=None, params=params_of(str(song))) as dag, pinned(pipeline=str(song)):
        StageOperator(stage="hum", pipeline=str(song))
    close = dag.get_task("close")
    assert close.closing_request(context_of(close)) is None


@pytest.fixture
def nightly(song):
    """A DAG whose first stage takes an input from the champion."""
    with DAG("song", schedule=None, params=params_of(str(song))) as dag, pinned(pipeline=str(song)) as champion:
        StageOperator(stage="echo", inputs={"tune": champion["hum"]}, pipeline=str(song))
    return dag


PIN = (
    "import json, pathlib, sys\n"
    "request = json.load(sys.stdin)\n"
    "assert (request['champion'], request['partition']) == (['hum'], '2026-11-03'), request\n"
    "answer = {answer}\n"
    "pathlib.Path(request['outcome']).write_text(json.dumps(answer))"
)


def test_pin_hands_on_what_the_champion_was_made_from(nightly, tasks_command):
    tasks_command(PIN.format(answer="{'fingerprints': {}, 'knobs': {}, 'champion': {'hum': '/store/hum/7'}}"))
    pin, pushed = nightly.get_task("pin"), {}
    context = context_of(pin) | {"partition_key": "2026-11-03"}
    context["ti"].xcom_push = pushed.__setitem__
    pin.execute(context)
    assert pushed == {"champion_hum": {"uri": "/store/hum/7"}}
    taken = nightly.get_task("echo").inputs["tune"]
    assert (taken.operator.task_id, taken.key) == ("pin", "champion_hum")


def test_a_night_that_brought_nothing_is_skipped(nightly, tasks_command):
    tasks_command(PIN.format(answer="{'nothing_new': 'there is no partition 2026-11-03'}"))
    pin = nightly.get_task("pin")
    with pytest.raises(AirflowSkipException, match="no partition 2026-11-03"):
        pin.execute(context_of(pin) | {"partition_key": "2026-11-03"})


def test_a_stage_that_finds_nothing_new_is_skipped_with_all_that_follows(hum, tasks_command):
    tasks_command(
        "import json, pathlib, sys\n"
        "request = json.load(sys.stdin)\n"
        "pathlib.Path(request['outcome']).write_text(json.dumps({'nothing_new': 'all of it was known'}))"
    )
    with pytest.raises(AirflowSkipException, match="all of it was known"):
        run(hum)


def test_a_stage_gets_the_knobs_that_pin_filled_in(hum):
    hum.pin_task_id = "pin"
    xcom = {"fingerprints": {}, "knobs": {"hum": {"voices": 3}}}
    assert hum.spec(context_of(hum, xcom=xcom))["config"]["voices"] == 3


def test_last_words_come_after_everything_else_a_process_writes():
    code = f"from plugins.operators import last_words; last_words.keep('hum', {WORDS!r}); print('the end')"
    said = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.splitlines() == ["the end", *WORDS]
