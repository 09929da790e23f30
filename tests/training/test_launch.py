from __future__ import annotations

import signal

import pytest

from tasks.core.errors import GateError, TryAgain
from tasks.training import checkpoint
from tasks.training.exchange import Exchange
from tasks.training.launch import TORCHRUN_LOG, outcome_of, refuse_company, run_training
from tasks.training.process import alone
from tests.training.plans import plan


@pytest.fixture
def exchange(tmp_path) -> Exchange:
    made = Exchange(tmp_path / "workspace")
    made.folder.mkdir()
    return made


@pytest.mark.parametrize("num_processes", [1, 2])
def test_nothing_is_cut_back_while_a_process_of_an_earlier_attempt_works(exchange, num_processes):
    exchange.curve.write_text('{"step": 1}\n')
    with alone(exchange.folder / "rank-1.lock"), pytest.raises(TryAgain, match="earlier attempt"):
        run_training("none:none", {}, plan(num_processes=num_processes), exchange)
    assert exchange.curve.read_text() == '{"step": 1}\n'
    refuse_company(exchange.folder)


def test_a_ledger_that_does_not_lead_up_to_the_checkpoint_is_refused_before_anything_starts(exchange):
    (exchange.checkpoints / "step-00000100").mkdir(parents=True)
    checkpoint.commit(exchange.checkpoints, "step-00000100", checkpoint.Layout(2, 0))
    with pytest.raises(GateError, match="step 1: no process has read anything"):
        run_training("none:none", {}, plan(num_steps=300), exchange)
    assert not list(exchange.logs.iterdir())


def test_a_launcher_that_was_killed_before_anything_was_saved_is_worth_another_try(exchange):
    exchange.prepare({})
    (exchange.logs / TORCHRUN_LOG).touch()
    with pytest.raises(TryAgain, match="torchrun was killed"):
        outcome_of(exchange, -signal.SIGKILL)
