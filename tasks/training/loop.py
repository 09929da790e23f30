"""The training loop: what every process of a run does, step by step.

Which samples a step reads follows from the step's number alone, so a run that resumes at step *n* reads what an
uninterrupted one would have read; with the same machine and number of processes it computes the same bits. The ledger
keeps what was really read.
"""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from tasks.training import checkpoint
from tasks.training.curve import CurveWriter
from tasks.training.exchange import Exchange
from tasks.training.gates import Skips, check_start
from tasks.training.ledger import LedgerWriter
from tasks.training.plan import Plan
from tasks.training.schedule import factor

Engine = Any
"""``deepspeed.DeepSpeedEngine``, which has no types."""


class Objective(Protocol):
    """What is learned: where the samples lie, what is read there, its loss, and how well the held-out text goes."""

    def places(self, numbers: range) -> list[int]:
        """Where in the training split the samples of these numbers lie; the numbers go on counting over epochs."""

    def batch(self, places: list[int]) -> Tensor: ...

    def loss(self, model: Engine, batch: Tensor) -> Tensor:
        """Mean loss of the batch in nats per target, a scalar that can be differentiated."""

    def validation_loss(self, model: Engine) -> float | None:
        """Mean loss in nats per held-out token, the same on every process; None without held-out text."""


@dataclass
class Progress:
    """Where a run is: all that a checkpoint must hold besides weights, optimizer and generators."""

    step: int = 0
    """Optimizer steps done."""
    initial_validation_loss: float | None = None
    """That of the weights the run started from, where they are an earlier training's."""
    first_loss: float = math.nan
    last_loss: float = math.nan
    """Mean training loss of the last logged steps."""
    skipped: int = 0
    skipped_in_a_row: int = 0
    window: list[float] = field(default_factory=list)
    """Losses of the steps since the last line of the curve."""


@dataclass(frozen=True)
class Ending:
    """How a run ended."""

    finished: bool
    """False when it was asked to stop; it has saved a checkpoint and can be resumed."""
    progress: Progress


class Stopper:
    """Knows when to leave early: a SIGTERM, a ``stop`` file, or a supervisor that died."""

    def __init__(self, stop_file: Path, supervisor: int) -> None:
        self.stop_file, self.supervisor, self.launcher = stop_file, supervisor, os.getppid()
        self.told = False
        signal.signal(signal.SIGTERM, self._tell)
        signal.signal(signal.SIGINT, self._tell)

    def _tell(self, _signum: int, _frame: Any) -> None:
        self.told = True

    def wanted(self) -> bool:
        orphaned = os.getppid() != self.launcher or not Path(f"/proc/{self.supervisor}").exists()
        return self.told or orphaned or self.stop_file.exists()


def train(
    engine: Engine, objective: Objective, plan: Plan, exchange: Exchange, *, resume: str | None, supervisor: int
) -> Ending:
    """Run the plan to its end, or to the next step boundary after a request to stop.

    Raises:
        GateError: the first loss is not that of such a start, or too many steps in a row were not finite.
    """
    progress = Progress()
    if resume is None:
        progress.initial_validation_loss = objective.validation_loss(engine) if plan.starts_trained else None
    else:
        progress = Progress(**checkpoint.load(engine, exchange.checkpoints, resume, seed=plan.seed))
    stopper = Stopper(exchange.stop, supervisor)
    curve = CurveWriter(exchange.curve) if dist.get_rank() == 0 else None
    ledger = LedgerWriter(exchange.ledger, dist.get_rank(), plan.num_processes)
    run = Run(engine, objective, plan, progress, ledger, curve)
    for stop in run.steps(stopper.wanted):
        due = plan.checkpoint_every and progress.step % plan.checkpoint_every == 0
        if stop or due or progress.step == plan.num_steps:
            save(run, exchange)
        if stop and progress.step < plan.num_steps:
            return Ending(False, progress)
    return Ending(True, progress)


def save(run: Run, exchange: Exchange) -> None:
    """Commit a checkpoint; first, in every process, make durable what leads up to it in ledger and curve."""
    run.ledger.sync()
    if run.curve is not None:
        run.curve.sync()
    layout = checkpoint.Layout(run.plan.num_processes, run.plan.zero_stage)
    checkpoint.save(run.engine, exchange.checkpoints, run.progress.step, asdict(run.progress), layout)


class Run:
    """One run in one process."""

    def __init__(
        self,
        engine: Engine,
        objective: Objective,
        plan: Plan,
        progress: Progress,
        ledger: LedgerWriter,
        curve: CurveWriter | None,
    ) -> None:
        self.engine, self.objective, self.plan, self.progress = engine, objective, plan, progress
        self.ledger, self.curve = ledger, curve
        self.skips = Skips(plan.max_skipped_steps, total=progress.skipped, in_a_row=progress.skipped_in_a_row)
        self.clock, self.clock_step = time.monotonic(), progress.step

    def steps(self, stop_wanted: Callable[[], bool]) -> Iterator[bool]:
        """Take step after step; after each, say whether any process wants to stop."""
        while self.progress.step < self.plan.num_steps:
            yield self.one_step(stop_wanted())

    def one_step(self, stop: bool) -> bool:
        """Forward, backward, update, report; returns whether any process wants to stop."""
        loss, stop = agreed(self.accumulate(), stop, self.engine.device)
        if self.progress.step == 0:
            check_start(loss, self.plan)
            self.progress.first_loss = loss
        rate = factor(
            self.progress.step, self.plan.num_steps, schedule=self.plan.schedule, warmup_share=self.plan.warmup_share
        )
        norm = self.update(loss, rate)
        self.progress.step += 1
        self.skips.record(finite=math.isfinite(loss) and math.isfinite(norm), step=self.progress.step)
        self.progress.skipped, self.progress.skipped_in_a_row = self.skips.total, self.skips.in_a_row
        self.report(loss, norm, rate)
        return stop

    def accumulate(self) -> Tensor:
        """Gradients of this process's share of the step; returns the mean loss of it, detached.

        DeepSpeed counts micro-batches by its ``step``, which updates only after the last; that one :meth:`update`
        takes, and by then the gradients are averaged over the processes.
        """
        plan, losses = self.plan, []
        for turn in range(plan.accumulation):
            loss = self.objective.loss(self.engine, self.next_batch(turn))
            self.engine.backward(loss)
            losses.append(loss.detach())
            if turn < plan.accumulation - 1:
                self.engine.step()
        return torch.stack(losses).mean()

    def next_batch(self, turn: int) -> Tensor:
        """Read this process's samples for forward pass ``turn`` of the step, and enter them in the ledger."""
        numbers = self.plan.numbers(self.progress.step, turn, dist.get_rank())
        places = self.objective.places(numbers)
        batch = self.objective.batch(places).to(self.engine.device)
        self.ledger.record(self.progress.step + 1, numbers, places)
        return batch

    def update(self, loss: float, rate: float) -> float:
        """Clip and apply the gradients at ``rate`` of the peak learning rates; returns their norm before clipping.

        A step that is not finite changes nothing. From ZeRO stage 1 on DeepSpeed sees to that; at stage 0 gradients
        are taken away before DeepSpeed would apply them.
        """
        for group in self.engine.optimizer.param_groups:
            group["lr"] = group["peak_lr"] * rate
        if self.plan.zero_stage:
            self.engine.step()
            return float(self.engine.get_global_grad_norm())
        parameters = [one for one in self.engine.module.parameters() if one.grad is not None]
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, self.plan.clip))
        if not (math.isfinite(norm) and math.isfinite(loss)):
            for parameter in parameters:
                parameter.grad = None
        self.engine.step()
        return norm

    def report(self, loss: float, norm: float, rate: float) -> None:
        """Add a line to the curve when one is due: at every ``log_every``-th step, at a validation, and at the last.

        Steps that were not finite are counted in the line and left out of its mean loss.
        """
        plan, progress = self.plan, self.progress
        if math.isfinite(loss):
            progress.window.append(loss)
        last = progress.step == plan.num_steps
        validate = bool(plan.validation_every) and progress.step % plan.validation_every == 0 and not last
        if not (last or validate or progress.step % plan.log_every == 0):
            return
        speed = (progress.step - self.clock_step) * plan.tokens_per_step / (time.monotonic() - self.clock)
        line = {
            "step": progress.step,
            "tokens": progress.step * plan.tokens_per_step,
            "learning_rate": rate * plan.lr,
            "skipped_steps": progress.skipped,
            "tokens_per_second": round(speed, 1),
        }
        if progress.window:
            line["loss"] = progress.last_loss = sum(progress.window) / len(progress.window)
            progress.window.clear()
        if math.isfinite(norm):
            line["gradient_norm"] = norm
        if validate and (held_out := self.objective.validation_loss(self.engine)) is not None:
            line["validation_loss"] = held_out
        if self.curve is not None:
            self.curve.append(line)
        self.clock, self.clock_step = time.monotonic(), progress.step


def agreed(loss: Tensor, stop: bool, device: torch.device) -> tuple[float, bool]:
    """Mean loss over the processes, and whether any of them wants to stop; the same on all."""
    both = torch.stack([loss.double(), torch.tensor(float(stop), dtype=torch.float64, device=device)])
    dist.all_reduce(both)
    return float(both[0]) / dist.get_world_size(), bool(both[1] > 0)
