"""The shipped DAGs as Airflow sees them, against what can be read from the files without Airflow."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.core.pipeline import read_wiring
from tasks.core.stage import signature_of

ROOT = Path(__file__).parents[2]
DAGS = ["lifecycle", "nightly"]
HEAVY = [
    "torch",
    "transformers",
    "mlflow",
    "pandas",
    "numpy",
    "spacy",
    "pyarrow",
    "deepspeed",
    "bentoml",
    "onnxruntime",
    "datasets",
]
MAX_PARSE_S = 0.3
DATA = ["ingest", "clean", "redact", "dedup"]
MODEL = ["shards", "train", "evaluate", "compress", "package", "smoke"]
ORDER = {"lifecycle": [*DATA, "tokenizer", *MODEL], "nightly": [*DATA, *MODEL, "promote"]}

PROBE = """
import importlib.util, json, sys, time
import airflow.sdk
from airflow.sdk import Param, dag, task
began = time.process_time()
name = sys.argv[1].rpartition("/")[2].removesuffix(".py")
spec = importlib.util.spec_from_file_location(name, sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules[name] = module
spec.loader.exec_module(module)
parse_s = time.process_time() - began
made = getattr(module, name)()
def source(value):
    return value.operator.task_id if value.key == "return_value" else value.key.replace("_", "/", 1)
print(json.dumps({
    "parse_s": parse_s,
    "modules": [name for name in sys.modules if "." not in name],
    "upstream": {task.task_id: sorted(task.upstream_task_ids) for task in made.tasks},
    "teardowns": [task.task_id for task in made.tasks if task.is_teardown],
    "inputs": {task.task_id: {name: source(value) for name, value in task.inputs.items()}
               for task in made.tasks if hasattr(task, "inputs")},
    "params": sorted(made.params),
    "schedule": type(made.timetable).__name__,
    "at_once": made.max_active_runs,
    "catchup": made.catchup,
}))
"""


@pytest.fixture(scope="module", params=DAGS)
def dag(request):
    return request.param


@pytest.fixture(scope="module")
def seen(dag, tmp_path_factory):
    """The DAG, parsed in a fresh process. Twice: the first compiles the modules, as a deployment has done before."""
    home = tmp_path_factory.mktemp("airflow")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"AIRFLOW_HOME": str(home), "PYTHONPATH": str(ROOT)}
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-c", PROBE, str(ROOT / f"dags/{dag}.py")],
            env=environment,
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


def test_parsing_adds_little_to_airflow_itself(seen):
    assert seen["parse_s"] < MAX_PARSE_S


def test_parsing_imports_no_heavy_library(seen):
    assert not set(HEAVY) & set(seen["modules"])


def test_airflow_and_the_command_line_read_the_same_wiring(dag, seen):
    assert seen["inputs"] == read_wiring(ROOT / f"dags/{dag}.py")


def test_a_steps_inputs_are_its_stages_parameters(seen):
    for stage, inputs in seen["inputs"].items():
        signature = signature_of(stage)
        assert set(signature.inputs) - set(signature.optional) <= set(inputs) <= set(signature.inputs), stage


def test_the_stages_are_those_of_its_work_in_order(dag, seen):
    assert list(seen["inputs"]) == ORDER[dag]


def test_pin_is_first_and_close_is_last(dag, seen):
    assert seen["upstream"]["pin"] == []
    assert seen["upstream"]["ingest"] == ["pin"]
    assert ORDER[dag][-1] in seen["upstream"]["close"]
    assert seen["teardowns"] == ["close"]


def test_the_trigger_form_holds_dials_overrides_and_force(dag, seen):
    assert {"overrides", "force"} < set(seen["params"])
    assert all(name.partition(".")[0] in ORDER[dag] for name in seen["params"] if "." in name)


@pytest.mark.parametrize("dag", ["lifecycle"], scope="module")
def test_the_lifecycle_runs_only_when_asked(seen):
    assert seen["schedule"] == "NullTimetable"


@pytest.mark.parametrize("dag", ["nightly"], scope="module")
def test_nightly_is_partitioned_and_one_run_at_a_time_promotes(seen):
    assert seen["schedule"] == "CronPartitionTimetable"
    assert (seen["at_once"], seen["catchup"]) == (1, False)
    assert seen["upstream"]["promote"] == ["evaluate", "package", "smoke"]
