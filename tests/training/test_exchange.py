from __future__ import annotations

import pytest

from tasks.core.errors import ConfigError, DataError, GateError, HeadraceError, TryAgain
from tasks.training.exchange import Exchange


@pytest.fixture
def exchange(tmp_path) -> Exchange:
    made = Exchange(tmp_path / "workspace")
    made.folder.mkdir()
    made.prepare({"plan": 1})
    return made


@pytest.mark.parametrize("kind", [GateError, DataError, TryAgain])
def test_an_error_of_ours_arrives_as_what_it_was(exchange, kind):
    exchange.write_failure(kind("too far", next_step="go back", subject="knob"))
    told = exchange.read_failure()
    assert (type(told), str(told), told.next_step, told.subject) == (kind, "too far", "go back", "knob")


def test_a_fault_arrives_with_its_traceback(exchange):
    try:
        raise ZeroDivisionError("by zero")
    except ZeroDivisionError as error:
        exchange.write_failure(error)
    told = exchange.read_failure()
    assert type(told) is HeadraceError
    assert "ZeroDivisionError: by zero" in str(told)
    assert __file__ in told.__notes__[0]


def test_the_first_failure_is_heard(exchange):
    exchange.write_failure(GateError("the cause"))
    exchange.write_failure(RuntimeError("in its wake"))
    assert str(exchange.read_failure()) == "the cause"
    assert sorted(path.name for path in exchange.folder.iterdir()) == [
        "checkpoints", "failure.json", "job.json", "logs",
    ]  # fmt: skip


def test_a_new_attempt_forgets_how_the_last_one_ended(exchange):
    exchange.write_failure(ConfigError("old"))
    exchange.stop.touch()
    exchange.outcome.write_text("{}")
    exchange.prepare({"plan": 2})
    assert (exchange.read_failure(), exchange.read_outcome(), exchange.stop.exists()) == (None, None, False)
    assert exchange.read_job() == {"plan": 2}
