"""The shipped DAG as Airflow sees it, against what can be read from the files without Airflow."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.core.pipeline import read_wiring
from tasks.core.stage import signature_of

ROOT = Path(__file__).parents[2]
DAG_FILE = ROOT / "dags/lifecycle.py"
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
ORDER = [
    "ingest",
    "clean",
    "redact",
    "dedup",
    "tokenizer",
    "shards",
    "train",
    "evaluate",
    "compress",
    "package",
    "smoke",
]

PROBE = """
import importlib.util, json, sys, time
import airflow.sdk
from airflow.sdk import Param, dag, task
began = time.process_time()
spec = importlib.util.spec_from_file_location("lifecycle", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["lifecycle"] = module
spec.loader.exec_module(module)
parse_s = time.process_time() - began
made = module.lifecycle()
print(json.dumps({
    "parse_s": parse_s,
    "modules": [name for name in sys.modules if "." not in name],
    "upstream": {task.task_id: sorted(task.upstream_task_ids) for task in made.tasks},
    "teardowns": [task.task_id for task in made.tasks if task.is_teardown],
    "inputs": {task.task_id: {name: value.operator.task_id for name, value in task.inputs.items()}
               for task in made.tasks if hasattr(task, "inputs")},
    "params": sorted(made.params),
    "schedule": str(made.schedule),
}))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """The DAG, parsed in a fresh process. Twice: the first compiles the modules, as a deployment has done before."""
    home = tmp_path_factory.mktemp("airflow")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"AIRFLOW_HOME": str(home), "PYTHONPATH": str(ROOT)}
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-c", PROBE, str(DAG_FILE)],
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


def test_airflow_and_the_command_line_read_the_same_wiring(seen):
    assert seen["inputs"] == read_wiring(DAG_FILE)


@pytest.mark.parametrize("stage", ORDER)
def test_a_steps_inputs_are_its_stages_parameters(seen, stage):
    signature = signature_of(stage)
    assert set(signature.inputs) - set(signature.optional) <= set(seen["inputs"][stage]) <= set(signature.inputs)


def test_the_stages_are_those_of_the_whole_life(seen):
    assert list(seen["inputs"]) == ORDER


def test_pin_is_first_and_close_is_last(seen):
    assert seen["upstream"]["pin"] == []
    assert seen["upstream"]["ingest"] == ["pin"]
    assert "smoke" in seen["upstream"]["close"]
    assert seen["teardowns"] == ["close"]


def test_it_runs_only_when_asked(seen):
    assert seen["schedule"] == "None"


def test_the_trigger_form_holds_dials_overrides_and_force(seen):
    assert {"overrides", "force"} < set(seen["params"])
    assert all(name.partition(".")[0] in ORDER for name in seen["params"] if "." in name)
