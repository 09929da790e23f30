"""The trigger form."""

import pytest
from airflow.sdk.exceptions import ParamValidationError

from plugins.params import params_of


@pytest.fixture
def params(song):
    return params_of(str(song))


def test_the_form_has_the_dials_and_nothing_else_of_the_knobs(params):
    assert list(params) == ["hum.times", "hum.key", "overrides", "force"]


def test_a_dial_has_the_yamls_value_and_its_knobs_help_under_its_stage(params):
    times = params["hum.times"]
    assert times.value == 2
    assert times.description == "How many times to hum."
    assert times.schema["section"] == "hum"


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("hum.times", 0),
        ("hum.times", 101),
        ("hum.times", "many"),
        ("hum.times", None),
        ("hum.key", 3),
        ("overrides", []),
        ("force", ["drum"]),
        ("force", True),
    ],
)
def test_what_is_wrong_is_refused_when_the_run_is_triggered(params, name, wrong):
    with pytest.raises(ParamValidationError):
        params[name].resolve(wrong)


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("hum.times", 100),
        ("hum.key", "D"),
        ("hum.key", None),
        ("overrides", {"hum.voices": 4, "echo.after": "", "hum.key.inner": 1}),
        ("force", ["hum", "echo"]),
        ("force", ["all"]),
    ],
)
def test_what_is_right_is_taken(params, name, right):
    assert params[name].resolve(right) == right


def test_an_optional_dial_is_a_field_that_the_form_can_draw(params):
    assert params["hum.key"].schema["type"] == ["string", "null"]
