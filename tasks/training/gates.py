"""What must hold for a run to go on."""

from __future__ import annotations

from tasks.core.errors import GateError
from tasks.training.plan import Plan


def check_start(loss: float, plan: Plan) -> None:
    """Refuse a first loss that is not that of the weights the run is meant to start from.

    Raises:
        GateError: as the checks below.
    """
    if plan.guessing_loss is not None:
        check = check_trained_loss if plan.starts_trained else check_first_loss
        check(loss, plan.guessing_loss, plan.first_loss_tolerance)


def check_first_loss(loss: float, expected: float, tolerance: float) -> None:
    """Refuse a model whose first loss is not that of guessing.

    An untrained model spreads its probability evenly: its loss is ln(vocabulary), plus half the variance of its
    logits, hidden_size · initializer_range² (0.04 nats at 192 · 0.02²). A first loss far above it means that weights
    were never or wrongly initialised; one far below, that targets leak into inputs.

    Raises:
        GateError: unless ``|loss - expected| <= tolerance``, in nats; a loss that is not a number is refused too.
    """
    if not abs(loss - expected) <= tolerance:
        raise GateError(
            f"the first loss is {loss:.3f} nats; an untrained model must be within {tolerance} of "
            f"ln(vocabulary) = {expected:.3f}",
            subject="first_loss_tolerance",
            next_step="check how weights are initialised (initializer_range) and that targets are the next tokens",
        )


def check_trained_loss(loss: float, guessing: float, tolerance: float) -> None:
    """Refuse the first loss of a model that was trained before when guessing does about as well.

    Raises:
        GateError: unless ``loss <= guessing - tolerance``, in nats; a loss that is not a number is refused too.
    """
    if not loss <= guessing - tolerance:
        raise GateError(
            f"the weights of the initial model did not arrive: the first loss is {loss:.3f} nats; a trained model must "
            f"be at least {tolerance} below ln(vocabulary) = {guessing:.3f}",
            subject="first_loss_tolerance",
            next_step="check that the initial model learned something, from text like this and with this tokenizer",
        )


class Skips:
    """Counts optimizer steps that had to be skipped because loss or gradient were not finite."""

    def __init__(self, limit: int, *, total: int = 0, in_a_row: int = 0) -> None:
        self.limit, self.total, self.in_a_row = limit, total, in_a_row

    def record(self, *, finite: bool, step: int) -> None:
        """Count one step.

        Raises:
            GateError: when ``limit`` steps in a row were not finite.
        """
        if finite:
            self.in_a_row = 0
            return
        self.total, self.in_a_row = self.total + 1, self.in_a_row + 1
        if self.in_a_row >= self.limit:
            raise GateError(
                f"loss or gradient were not finite in {self.in_a_row} steps in a row, up to step {step}",
                subject="max_skipped_steps",
                next_step="lower the learning rates or the gradient clip; the last checkpoint is still sound",
            )
