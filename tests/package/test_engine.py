"""The generating thread, on a model that is slow enough to be left."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict
from typing import Any

import pytest

from tasks.lm.onnx_generation import OnnxModel, Sampling
from tasks.package.service.engine import Engine, Piece
from tasks.package.service.limits import Limits
from tests import tiny_release as release

SAMPLING = Sampling(max_tokens=60, ignore_end=True)


class SlowModel(OnnxModel):
    """Takes 10 ms a step and counts them."""

    num_steps = 0

    def step(self, *arguments: Any) -> Any:
        self.num_steps += 1
        time.sleep(0.01)
        return super().step(*arguments)


@pytest.fixture
def engine() -> Engine:
    folder = release.local(release.compressed())
    found = Engine(folder, Limits(**asdict(release.PACKAGE)))
    found.model = SlowModel(folder, "int8")
    return found


def finish(engine: Engine) -> None:
    """Wait until the generating thread has nothing left to do."""
    engine._worker.submit(lambda: None).result(timeout=30)


def test_a_completion_that_nobody_waits_for_is_not_finished(engine: Engine) -> None:
    async def leave_after_one() -> None:
        pieces = engine.complete([0, 5], SAMPLING, [], time.monotonic() + 60)
        assert isinstance(await anext(pieces), Piece)
        await pieces.aclose()

    asyncio.run(leave_after_one())
    finish(engine)
    assert engine.model.num_steps < 10


def test_one_that_was_left_while_it_waited_is_never_begun(engine: Engine) -> None:
    async def leave_while_waiting() -> None:
        first = engine.complete([0, 5], SAMPLING, [], time.monotonic() + 60)
        await anext(first)
        waiting = asyncio.ensure_future(anext(engine.complete([0, 6], SAMPLING, [], time.monotonic() + 60)))
        await asyncio.sleep(0.02)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        async for _ in first:
            pass

    asyncio.run(leave_while_waiting())
    finish(engine)
    assert engine.model.num_steps == 60


def test_the_event_loop_is_free_while_a_completion_is_made(engine: Engine) -> None:
    async def longest_pause() -> float:
        async def whole() -> None:
            async for _ in engine.complete([0, 5], SAMPLING, [], time.monotonic() + 60):
                pass

        work, pauses = asyncio.ensure_future(whole()), []
        while not work.done():
            started = time.monotonic()
            await asyncio.sleep(0)
            pauses.append(time.monotonic() - started)
        return max(pauses)

    assert asyncio.run(longest_pause()) < 0.5  # 60 steps of 10 ms are more
