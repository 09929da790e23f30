from __future__ import annotations

import math

import pytest

from tasks.core.errors import GateError
from tasks.training.gates import Skips, check_first_loss, check_start, check_trained_loss
from tests.training import plans

EXPECTED = math.log(4096)


@pytest.mark.parametrize("loss", [EXPECTED - 0.49, EXPECTED, EXPECTED + 0.49])
def test_a_first_loss_near_ln_of_the_vocabulary_passes(loss):
    check_first_loss(loss, EXPECTED, 0.5)


@pytest.mark.parametrize("loss", [87.0, EXPECTED + 0.51, EXPECTED - 0.51, 0.1, math.nan, math.inf])
def test_a_first_loss_far_from_it_is_refused(loss):
    with pytest.raises(GateError, match=r"ln\(vocabulary\) = 8\.318"):
        check_first_loss(loss, EXPECTED, 0.5)


@pytest.mark.parametrize("loss", [0.1, 2.0, EXPECTED - 0.51])
def test_a_model_that_was_trained_before_starts_below_guessing(loss):
    check_trained_loss(loss, EXPECTED, 0.5)


@pytest.mark.parametrize("loss", [EXPECTED - 0.49, EXPECTED, 87.0, math.nan])
def test_a_trained_model_that_starts_like_an_untrained_one_is_refused(loss):
    with pytest.raises(GateError, match=r"did not arrive: .* at least 0\.5 below ln\(vocabulary\) = 8\.318"):
        check_trained_loss(loss, EXPECTED, 0.5)


@pytest.mark.parametrize(("guessing_loss", "starts_trained"), [(None, False), (EXPECTED, True)])
def test_only_a_fresh_start_must_be_guessing(guessing_loss, starts_trained):
    check_start(2.0, plans.plan(guessing_loss=guessing_loss, starts_trained=starts_trained))
    with pytest.raises(GateError, match="an untrained model"):
        check_start(2.0, plans.plan(guessing_loss=EXPECTED))


def test_steps_in_a_row_without_a_finite_loss_stop_the_run():
    skips = Skips(3)
    for step, finite in enumerate([True, False, False, True, False, False]):
        skips.record(finite=finite, step=step)
    with pytest.raises(GateError, match="3 steps in a row, up to step 6"):
        skips.record(finite=False, step=6)


def test_skipped_steps_are_counted_over_a_restart():
    skips = Skips(3, total=4, in_a_row=2)
    with pytest.raises(GateError):
        skips.record(finite=False, step=9)
    assert skips.total == 5
