"""Where a stage runs, and what its process sees of ours."""

import json
import time

import pytest

from plugins.operators.backends import LocalJob, backend_for
from tasks.core.errors import ConfigError


def test_a_stage_runs_here_unless_configured_otherwise():
    assert backend_for("train") is LocalJob


def test_one_stage_may_run_elsewhere_and_a_wrong_name_is_told_with_the_known_ones(monkeypatch):
    monkeypatch.setenv("AIRFLOW__HEADRACE__TRAIN_BACKEND", "moon")
    assert backend_for("clean") is LocalJob
    with pytest.raises(ConfigError, match=r"no such backend: 'moon'\D+known: local") as caught:
        backend_for("train")
    assert "train_backend" in caught.value.next_step


def test_the_command_gets_the_request_and_none_of_airflows_settings(tasks_command, monkeypatch):
    tasks_command("import json, os, sys; print(json.dumps([sys.argv[1:], sys.stdin.read(), dict(os.environ)]))")
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "secret")
    job = LocalJob(["run", "hum"], "{词}", {"S3_KEY": "from a connection"})
    arguments, given, environment = json.loads("".join(job.lines()))
    assert job.exit_code() == 0
    assert (arguments, given) == (["run", "hum"], "{词}")
    assert environment["S3_KEY"] == "from a connection"
    assert not [name for name in environment if name.startswith("AIRFLOW__")]


def test_lines_arrive_while_the_command_runs(tasks_command):
    folder = tasks_command(
        "import pathlib, time\nprint('one')\nwhile not pathlib.Path('go').exists(): time.sleep(0.02)"
    )
    job = LocalJob(["run"], "", {})
    lines = job.lines()
    assert next(lines) == "one"
    (folder / "go").touch()
    assert list(lines) == []
    assert job.exit_code() == 0


def test_a_large_request_to_a_command_that_does_not_read_it_is_no_error_of_ours(tasks_command):
    tasks_command("print('gone'); raise SystemExit(2)")
    job = LocalJob(["run"], "x" * 1_000_000, {})
    assert list(job.lines()) == ["gone"]
    assert job.exit_code() == 2


def test_stopping_returns_at_once_and_the_checkpoint_is_written_afterwards(tasks_command):
    folder = tasks_command("""
import pathlib, signal, time
def save(*_):
    time.sleep(1)
    pathlib.Path("checkpoint").write_text("saved")
    raise SystemExit(75)
signal.signal(signal.SIGTERM, save)
print("working")
time.sleep(600)
""")
    job = LocalJob(["run"], "", {})
    lines = job.lines()
    assert next(lines) == "working"
    asked = time.monotonic()
    job.stop()
    assert time.monotonic() - asked < 0.5
    assert job.exit_code() == 75
    assert (folder / "checkpoint").read_text() == "saved"
