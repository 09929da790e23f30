from __future__ import annotations

import math

import pytest

from tasks.core.errors import GateError
from tasks.training.gates import Skips, check_first_loss

EXPECTED = math.log(4096)


@pytest.mark.parametrize("loss", [EXPECTED - 0.49, EXPECTED, EXPECTED + 0.49])
def test_a_first_loss_near_ln_of_the_vocabulary_passes(loss):
    check_first_loss(loss, EXPECTED, 0.5)


@pytest.mark.parametrize("loss", [87.0, EXPECTED + 0.51, EXPECTED - 0.51, 0.1, math.nan, math.inf])
def test_a_first_loss_far_from_it_is_refused(loss):
    with pytest.raises(GateError, match=r"ln\(vocabulary\) = 8\.318"):
        check_first_loss(loss, EXPECTED, 0.5)


def test_a_model_that_was_trained_before_may_start_anywhere():
    check_first_loss(2.0, None, 0.5)


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
