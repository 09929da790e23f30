"""Which partitions the trigger tells of, and when, by real folders; and the runs that are started for them."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import DagRunTriggerException
from airflow.serialization.encoders import encode_trigger

from plugins.operators.arrivals import ArrivedOperator, RememberOperator, StartRunOperator, run_id_of
from plugins.triggers import arrivals
from plugins.triggers.arrivals import ArrivalsTrigger, look, wait_after, watched
from tasks.core.errors import ConfigError

ROOT = Path(__file__).parents[2]
SECRET = "s3cr3t/of+the=lake"
DAG = """
import json, sys, time
import airflow.sdk
from airflow.sdk import Param, dag, task
sys.path.insert(0, "dags")
began = time.process_time()
import arrivals
parse_s = time.process_time() - began
made = [one for one in vars(arrivals).values() if isinstance(one, airflow.sdk.DAG)]
from airflow.dag_processing.dagbag import DagBag
dags = DagBag("dags/arrivals.py").dags
print(json.dumps([parse_s, [name for name in sys.modules if "." not in name], list(dags)]))
"""


class State:
    """What Airflow's database keeps for the asset."""

    def __init__(self):
        self.kept = {}

    async def aget(self, key):
        return self.kept.get(key)

    async def aset(self, key, value):
        self.kept[key] = json.loads(json.dumps(value))


@pytest.fixture
def state():
    return State()


@pytest.fixture
def incoming(tmp_path):
    """The prefix, where somebody has looked already."""
    folder = tmp_path / "incoming 来"
    folder.mkdir()
    return folder


@pytest.fixture
def trigger(incoming, state):
    def make(every_s=0.05, looked=True):
        if looked:
            state.kept.setdefault("started", [])
        made = ArrivalsTrigger(str(incoming), every_s)
        made.asset_state_store = state
        return made

    return make


def arrive(incoming, *names, mark="_SUCCESS"):
    for name in names:
        (incoming / name / mark).parent.mkdir(parents=True)
        (incoming / name / mark).touch()


def told(trigger, number, within_s=20.0):
    """What its first so many events say; then it is stopped, as the triggerer does when it ends."""

    async def listen():
        async with aclosing(trigger.run()) as events, asyncio.timeout(within_s):
            return [(await anext(events)).payload["partitions"] for _ in range(number)]

    return asyncio.run(listen())


def arrived(trigger, times=1):
    """What it tells at each of so many looks."""

    async def looks():
        return [await trigger.to_tell() for _ in range(times)]

    return asyncio.run(looks())


def test_partitions_that_arrive_together_are_told_of_together_in_their_order(incoming, trigger):
    """Not one by one: Airflow's scheduler passes over an event while one before it waits."""
    arrive(incoming, "2026-11-03", "2026-11-01", "2026-11-02")
    assert told(trigger(), 1) == [["2026-11-01", "2026-11-02", "2026-11-03"]]


def test_a_partition_is_told_of_when_it_is_complete_and_not_before(incoming, trigger):
    (incoming / "2026-11-01").mkdir()
    (incoming / "2026-11-01/part-0.jsonl").touch()
    watching = trigger()
    assert arrived(watching) == [[]]
    (incoming / "2026-11-01/_SUCCESS").touch()
    assert arrived(watching, 2) == [["2026-11-01"], []]


def test_an_older_partition_that_comes_late_is_told_of(incoming, trigger):
    watching = trigger()
    arrive(incoming, "2026-11-03")
    assert arrived(watching) == [["2026-11-03"]]
    arrive(incoming, "2026-11-01")
    assert arrived(watching) == [["2026-11-01"]]


def test_an_artifact_in_the_folder_of_a_stage_is_complete_with_its_first_record(incoming, trigger):
    arrive(incoming, "0a1b", mark="records/1.json")
    arrive(incoming, "2c3d", mark="20261101T020000-0a1b2c3d/part-0.parquet")
    assert arrived(trigger()) == [["0a1b"]]


@pytest.mark.parametrize("name", ["_temporary", ".2026-11-01.copying"])
def test_what_is_still_being_written_under_a_hidden_name_is_left_alone(incoming, trigger, name):
    arrive(incoming, name)
    (incoming / "_SUCCESS").touch()
    assert arrived(trigger()) == [[]]


def test_of_what_was_there_before_anybody_looked_only_the_newest_is_told(incoming, trigger):
    arrive(incoming, "2026-11-01", "2026-11-02")
    watching = trigger(looked=False)
    assert arrived(watching, 2) == [["2026-11-02"], []]
    arrive(incoming, "2026-10-31")
    assert arrived(watching) == [["2026-10-31"]]


def test_a_prefix_that_is_not_there_yet_is_waited_for(incoming, trigger):
    incoming.rmdir()
    watching = trigger(looked=False)
    assert arrived(watching) == [[]]
    arrive(incoming, "2026-11-01", "2026-11-02")
    assert arrived(watching) == [["2026-11-01", "2026-11-02"]]


def remember(state, *names):
    """As the DAG does once it has started the runs."""
    context = {"asset_state_store": SimpleNamespace(get=state.kept.get, set=state.kept.__setitem__)}
    RememberOperator(task_id="remember", partitions=list(names)).execute(context)


def test_what_was_started_is_not_told_again_after_a_restart(incoming, trigger, state):
    arrive(incoming, "2026-11-01", "2026-11-02")
    assert arrived(trigger()) == [["2026-11-01", "2026-11-02"]]
    remember(state, "2026-11-01")
    remember(state, "2026-11-02")
    arrive(incoming, "2026-11-03")
    assert arrived(trigger()) == [["2026-11-03"]]


@pytest.mark.parametrize("looked", [True, False])
def test_what_was_told_and_not_started_when_the_triggerer_died_is_told_again(incoming, trigger, looked):
    arrive(incoming, "2026-11-01")
    assert arrived(trigger(looked=looked)) == [["2026-11-01"]]
    arrive(incoming, "2026-11-02")
    assert arrived(trigger(looked=looked)) == [["2026-11-01", "2026-11-02"]]


def test_an_event_that_got_lost_is_told_again_after_a_while(incoming, trigger, monkeypatch):
    arrive(incoming, "2026-11-01")
    watching = trigger()
    assert arrived(watching, 2) == [["2026-11-01"], []]
    monkeypatch.setattr(arrivals, "AGAIN_S", 0.0)
    assert arrived(watching) == [["2026-11-01"]]


def test_looks_that_fail_are_told_with_their_reason_and_the_next_one_that_works_goes_on(
    incoming, trigger, monkeypatch, capsys
):
    arrive(incoming, "2026-11-01")
    failures = iter([OSError("the network is down")] * 3)

    async def unsteady(*asked):
        for failure in failures:
            raise failure
        return await look(*asked)

    monkeypatch.setattr(arrivals, "look", unsteady)
    assert told(trigger(every_s=0.01), 1) == [["2026-11-01"]]
    assert capsys.readouterr().out.count("the network is down") == 3


def test_the_time_between_failing_looks_doubles_up_to_a_quarter_of_an_hour():
    assert [wait_after(failures, 60) for failures in (1, 2, 3, 4, 1_000_000)] == [120, 240, 480, 900, 900]
    assert wait_after(1, 3600) == 3600


def test_a_look_gets_the_connections_credentials_and_shows_none_when_it_fails(tmp_path, monkeypatch, capfd, caplog):
    (tmp_path / "plugins/triggers").mkdir(parents=True)
    (tmp_path / "plugins/triggers/look.py").write_text(
        "import os\nraise SystemExit('denied for ' + os.environ['AWS_SECRET_ACCESS_KEY'])"
    )
    monkeypatch.setattr(arrivals, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    lake = {"conn_type": "aws", "login": "AKIALAKE", "password": SECRET}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(lake))
    monkeypatch.setenv("AIRFLOW__HEADRACE__SOURCE_CONN_IDS", "lake")
    with pytest.raises(arrivals.LookError, match=r"under s3://bucket/incoming: denied for \*\*\*") as caught:
        asyncio.run(look("s3://bucket/incoming", ()))
    assert SECRET not in str(caught.value) + caplog.text + "".join(capfd.readouterr())


def test_a_look_that_gets_no_answer_is_given_up_and_its_process_ended(tmp_path, monkeypatch):
    (tmp_path / "plugins/triggers").mkdir(parents=True)
    (tmp_path / "plugins/triggers/look.py").write_text(
        f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    )
    monkeypatch.setattr(arrivals, "ROOT", tmp_path)
    monkeypatch.setattr(arrivals, "LOOK_S", 2.0)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    async def give_up():
        with pytest.raises(arrivals.LookError, match="no answer about /incoming after 2 s"):
            await look("/incoming", ())
        await asyncio.sleep(0.5)

    asyncio.run(give_up())
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


def test_other_triggers_go_on_while_one_looks(incoming, trigger):
    async def both():
        looking = asyncio.create_task(trigger().to_tell())
        beats = 0
        while not looking.done():
            await asyncio.sleep(0.01)
            beats += 1
        return beats

    assert asyncio.run(both()) > 5


def test_airflow_makes_the_trigger_again_from_what_it_keeps_of_it(incoming):
    kept = encode_trigger(ArrivalsTrigger(str(incoming), 60.0))
    assert kept["classpath"] == "plugins.triggers.arrivals.ArrivalsTrigger"
    assert vars(ArrivalsTrigger(**kept["kwargs"]))["prefix"] == str(incoming)


@pytest.mark.parametrize("prefix", ["s3://bucket/in coming", "hdfs://namenode:8020/来", "var/incoming"])
def test_each_prefix_is_an_asset_of_its_own_so_that_its_state_is_too(monkeypatch, prefix):
    monkeypatch.setenv("AIRFLOW__HEADRACE__ARRIVALS_PREFIX", prefix)
    asset = watched()
    monkeypatch.setenv("AIRFLOW__HEADRACE__ARRIVALS_PREFIX", f"{prefix}2")
    assert (asset.name, asset.uri) != (watched().name, watched().uri)


def test_nothing_is_watched_unless_a_prefix_is_configured(monkeypatch):
    assert watched() is None
    monkeypatch.setenv("AIRFLOW__HEADRACE__ARRIVALS_PREFIX", "s3://bucket/incoming")
    assert [one.trigger.prefix for one in watched().watchers] == ["s3://bucket/incoming"]


@pytest.mark.parametrize("every_s", ["0", "-1", "4.9", "nan"])
def test_looking_without_a_pause_is_refused(monkeypatch, every_s):
    monkeypatch.setenv("AIRFLOW__HEADRACE__ARRIVALS_PREFIX", "/incoming")
    monkeypatch.setenv("AIRFLOW__HEADRACE__ARRIVALS_EVERY_S", every_s)
    with pytest.raises(ConfigError, match="arrivals_every_s must be at least 5"):
        watched()


def test_a_partition_that_was_announced_twice_is_handed_on_once():
    events = [SimpleNamespace(extra={"payload": {"partitions": names}}) for names in (["b"], ["a", "b"])]
    context = {"triggering_asset_events": {"asset": events}}
    assert ArrivedOperator(task_id="arrived").execute(context) == ["a", "b"]


def test_a_run_is_started_for_the_partition_and_left_alone_if_there_is_one():
    with pytest.raises(DagRunTriggerException) as caught:
        StartRunOperator(task_id="start", starts="nightly", partition="2026-11-01").execute({})
    asked = caught.value
    assert (asked.trigger_dag_id, asked.dag_run_id) == ("nightly", "arrival__2026-11-01")
    assert asked.conf == {"overrides": {"ingest.partition": "2026-11-01"}}
    assert asked.skip_when_already_exists
    assert not asked.reset_dag_run


def test_the_run_of_a_partition_has_a_name_that_airflow_allows():
    assert run_id_of("北 1") == "arrival__~E5~8C~97~201"


@pytest.fixture(scope="module", params=["/incoming", ""], ids=["watched", "not watched"])
def parsed(request, tmp_path_factory):
    """Prefix; seconds of parsing, modules and DAGs of the file in a fresh process, the second time."""
    home = tmp_path_factory.mktemp("airflow")
    given = {"AIRFLOW_HOME": str(home), "PYTHONPATH": str(ROOT), "AIRFLOW__HEADRACE__ARRIVALS_PREFIX": request.param}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | given
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-c", DAG], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
    return request.param, *json.loads(run.stdout.splitlines()[-1])


def test_the_dag_is_there_when_something_is_watched_and_parses_lightly(parsed):
    prefix, parse_s, modules, dags = parsed
    assert dags == (["arrivals"] if prefix else [])
    assert parse_s < 0.3
    assert not {"torch", "pandas", "numpy", "pyarrow", "mlflow", "s3fs", "hdfs_native"} & set(modules)
