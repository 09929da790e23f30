from __future__ import annotations

import math

import pytest

from tasks.training.schedule import FINAL_FACTOR, factor

STEPS = 1000


def curve(schedule: str, warmup_share: float = 0.03, num_steps: int = STEPS) -> list[float]:
    return [factor(step, num_steps, schedule=schedule, warmup_share=warmup_share) for step in range(num_steps)]


@pytest.mark.parametrize("schedule", ["cosine", "wsd"])
def test_the_rate_rises_on_a_line_to_its_peak(schedule):
    assert curve(schedule)[:30] == pytest.approx([(step + 1) / 30 for step in range(30)])


@pytest.mark.parametrize("schedule", ["cosine", "wsd"])
@pytest.mark.parametrize("num_steps", [1, 2, 3, 50, STEPS])
def test_the_last_step_has_the_final_rate(schedule, num_steps):
    assert curve(schedule, num_steps=num_steps)[-1] == pytest.approx(FINAL_FACTOR if num_steps > 1 else 1.0)


def test_the_cosine_is_half_way_down_in_the_middle():
    middle = 30 + (STEPS - 30) // 2 - 1
    assert curve("cosine")[middle] == pytest.approx((1 + FINAL_FACTOR) / 2)


@pytest.mark.parametrize("step", [30, 123, 700, 998])
def test_the_cosine_is_that_of_the_paper(step):
    angle = math.pi * (step - 29) / 970
    assert curve("cosine")[step] == pytest.approx(0.02 + 0.5 * 0.98 * (1 + math.cos(angle)))


def test_wsd_is_constant_for_two_fifths_and_then_a_line():
    values = curve("wsd")
    assert values[30:400] == [1.0] * 370
    assert values[400:] == pytest.approx([1 - 0.98 * (k + 1) / 600 for k in range(600)])


def test_a_run_too_short_for_the_share_still_warms_up_in_one_step():
    assert curve("wsd", warmup_share=0.0, num_steps=10)[0] == 1.0
