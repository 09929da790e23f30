from pathlib import Path

import pytest

from tasks.core.errors import ConfigError
from tasks.core.pipeline import load, parse_settings, read_wiring, resolve


def write(folder: Path, dag: str, knobs: str = "") -> Path:
    (folder / "p.py").write_text(dag)
    (folder / "p.yaml").write_text(knobs)
    return folder / "p.yaml"


def test_the_wiring_is_read_from_the_dag_file(toy_pipeline):
    assert read_wiring(toy_pipeline.with_suffix(".py")) == {
        "make": {},
        "count": {"documents": "make"},
        "check": {"count": "count"},
    }


def test_settings_win_over_the_file_and_are_typed(toy_pipeline):
    pipeline = load(toy_pipeline, ["make.num_documents=9", "make.prefix='12'"])
    assert (pipeline.configs["make"].num_documents, pipeline.configs["make"].prefix) == (9, "12")


def test_problems_of_file_and_settings_are_said_together(tmp_path):
    path = write(tmp_path, 'a = step(stage="make")', "make: {num_document: 3}\nmakes: {}")
    with pytest.raises(ConfigError) as caught:
        load(path, ["make.workers=x", "cont.unit=a"])
    assert "make.num_document: no such knob; did you mean make.num_documents?" in caught.value.problems
    assert "makes: no such stage in this pipeline; did you mean make?" in caught.value.problems
    assert any(problem.startswith("cont.unit: no such stage") for problem in caught.value.problems)
    assert any(problem.startswith("make.workers: must be a valid integer") for problem in caught.value.problems)


def test_a_key_written_twice_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="written twice: make"):
        load(write(tmp_path, 'a = step(stage="make")', "make: {}\nmake: {}"))


def test_resolved_knobs_are_json_values(toy_pipeline):
    assert resolve(toy_pipeline, {"make.num_documents": 1})["make"]["num_documents"] == 1


@pytest.mark.parametrize(
    ("dag", "message"),
    [
        ("a = step(stage=name)", "literal stage"),
        ('a = step(stage="made")', "no such stage: made; did you mean make"),
        ('a = step(stage="count", inputs={"documents": made.output})', "made.output is not the output of an earlier"),
        ("x = 1", "no step"),
        ("a = (", "not valid Python"),
    ],
)
def test_a_step_that_cannot_be_read_says_why(tmp_path, dag, message):
    with pytest.raises(ConfigError, match=message):
        load(write(tmp_path, dag))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing\.py"):
        load(tmp_path / "nothing.yaml")


def test_every_bad_setting_is_named():
    with pytest.raises(ConfigError) as caught:
        parse_settings(["nodot=1", "a.b"])
    assert len(caught.value.problems) == 2
