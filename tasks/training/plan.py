"""Everything the loop needs to know about a run, as plain values that travel to the worker processes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from tasks.training.schedule import Schedule

Optimizer = Literal["muon", "adamw"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One training run."""

    num_steps: int
    global_batch: int
    """Samples per optimizer step, over all processes."""
    num_samples: int
    """Samples of the training split; an epoch reads each of them once."""
    tokens_per_sample: int
    micro_batch: int
    """Samples per process and forward pass."""
    num_processes: int
    zero_stage: int
    precision: Literal["bf16", "fp32"]
    optimizer: Optimizer
    matrix_lr: float
    """Peak learning rate of Muon; used with ``optimizer="muon"`` only."""
    momentum: float
    """Of Muon."""
    lr: float
    """Peak learning rate of AdamW."""
    beta1: float
    beta2: float
    """How slowly AdamW's means of the gradient and of its square move."""
    weight_decay: float
    schedule: Schedule
    warmup_share: float
    clip: float
    """Largest gradient norm."""
    seed: int
    guessing_loss: float | None
    """ln(vocabulary), the loss in nats of guessing evenly; None where nothing is asked of the first loss."""
    first_loss_tolerance: float
    """An untrained model must be within it of guessing, a trained one better than guessing by at least this."""
    starts_trained: bool
    """Whether the weights at the first step are those of an earlier training."""
    max_skipped_steps: int
    """Consecutive steps without a finite loss and gradient after which the run stops."""
    log_every: int
    validation_every: int
    """0 validates at the end only."""
    checkpoint_every: int

    @property
    def accumulation(self) -> int:
        """Forward passes of each process per optimizer step."""
        return self.global_batch // (self.micro_batch * self.num_processes)

    @property
    def tokens_per_step(self) -> int:
        return self.global_batch * self.tokens_per_sample

    def numbers(self, step: int, turn: int, rank: int) -> range:
        """Samples that process ``rank`` reads in forward pass ``turn`` of the step that follows ``step`` others.

        Samples are numbered through the whole run, and a step reads the same ones however many processes there are.
        """
        start = step * self.global_batch + (turn * self.num_processes + rank) * self.micro_batch
        return range(start, start + self.micro_batch)

    def as_json(self) -> dict[str, Any]:
        """The plan as JSON values; ``Plan(**values)`` reads them back."""
        return asdict(self)


def batch_problems(*, global_batch: int, micro_batch: int, num_processes: int) -> list[str]:
    """Why a global batch cannot be divided (batch = micro-batch · accumulation · processes); empty when it can."""
    together = micro_batch * num_processes
    if micro_batch < 1 or global_batch % together:
        return [
            f"global_batch {global_batch} must be a multiple of micro_batch {micro_batch} · num_processes "
            f"{num_processes} = {together}"
        ]
    return []


def zero_problems(*, zero_stage: int, optimizer: Optimizer) -> list[str]:
    """Why an optimizer cannot run under a ZeRO stage; empty when it can.

    ZeRO from stage 1 on flattens parameters into one vector, and Muon needs to see matrices.
    """
    if zero_stage > 0 and optimizer == "muon":
        return [f"zero_stage {zero_stage} flattens the matrices that muon needs; use optimizer adamw or zero_stage 0"]
    return []
