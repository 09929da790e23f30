"""Muon for matrices and AdamW for the rest, in one optimizer that DeepSpeed accepts as the client's.

Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/) replaces a matrix's momentum by the nearest
semi-orthogonal matrix. torch ships one, but it works in bfloat16 always, which a CPU without bfloat16 instructions
emulates 20 times as slowly as float32, and each process repeats the work of all. Here the number format follows
the run's precision and the processes divide the matrices among themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

NUM_ITERATIONS = 5
QUINTIC = (3.4445, -4.7750, 2.0315)
"""Coefficients of the Newton-Schulz iteration, tuned for a steep slope at zero (Jordan et al. 2024)."""
EPSILON = 1e-8

Group = dict[str, Any]


def orthogonalised(matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """The semi-orthogonal matrix near ``matrix`` (R, C): its singular values become about 1 (0.7 to 1.2).

    Five quintic Newton-Schulz iterations, computed in ``dtype``.
    """
    a, b, c = QUINTIC
    tall = matrix.size(0) > matrix.size(1)
    x = (matrix.T if tall else matrix).to(dtype)
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(NUM_ITERATIONS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def parameter_groups(
    model: torch.nn.Module,
    *,
    matrix_lr: float | None,
    momentum: float,
    lr: float,
    betas: tuple[float, float],
    weight_decay: float,
) -> list[Group]:
    """Groups for :class:`MuonAdamW`: hidden matrices, and everything else (embeddings, output head, norms).

    With ``matrix_lr`` None matrices train with AdamW too, in a group of their own because only they decay.
    """
    table = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    matrices: list[Tensor] = []
    others: list[Tensor] = []
    for parameter in (one for one in model.parameters() if one.requires_grad):
        is_matrix = parameter.ndim == 2 and not any(parameter is one for one in table)
        (matrices if is_matrix else others).append(parameter)
    rate = lr if matrix_lr is None else matrix_lr
    groups = [
        {"params": matrices, "lr": rate, "weight_decay": weight_decay, "muon": matrix_lr is not None},
        {"params": others, "lr": lr, "weight_decay": 0.0, "muon": False},
    ]
    shared = {"momentum": momentum, "betas": betas}
    return [{**group, **shared, "peak_lr": group["lr"]} for group in groups if group["params"]]


class MuonAdamW(torch.optim.Optimizer):  # type: ignore[misc]
    """Applies Muon to groups marked ``muon`` and AdamW to the others; both decay weights apart from the gradient.

    Parameters without a gradient are left alone, so a step can be skipped by taking the gradients away. The state is
    ordinary optimizer state: any checkpoint that saves ``state_dict()`` resumes it exactly.
    """

    def __init__(self, groups: Iterable[Group], *, dtype: torch.dtype) -> None:
        super().__init__(groups, {"momentum": 0.95, "betas": (0.9, 0.95)})
        self.dtype = dtype

    def step(self, closure: None = None) -> None:
        """Apply the gradients; the loop computes the loss itself, so there is no closure."""
        assert closure is None
        with torch.no_grad():
            for group in self.param_groups:
                live = [parameter for parameter in group["params"] if parameter.grad is not None]
                if live and group["muon"]:
                    self._muon(live, group)
                else:
                    for parameter in live:
                        self._adamw(parameter, group)

    def _muon(self, matrices: list[Tensor], group: Group) -> None:
        """Nesterov momentum on every process, then the shared orthogonalisation, then the update."""
        directions = []
        for matrix in matrices:
            momentum = self.state[matrix].setdefault("momentum", torch.zeros_like(matrix))
            momentum.lerp_(matrix.grad, 1 - group["momentum"])
            directions.append(matrix.grad.lerp(momentum, group["momentum"]))
        for matrix, update in zip(matrices, shared_orthogonalisation(directions, self.dtype), strict=True):
            scale = math.sqrt(max(1.0, matrix.size(0) / matrix.size(1)))
            matrix.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-group["lr"] * scale)

    def _adamw(self, parameter: Tensor, group: Group) -> None:
        """Loshchilov and Hutter 2019 (arXiv:1711.05101), algorithm 2."""
        assert parameter.grad is not None
        state, (beta1, beta2) = self.state[parameter], group["betas"]
        if not state:
            state.update(step=0, first=torch.zeros_like(parameter), second=torch.zeros_like(parameter))
        state["step"] += 1
        state["first"].lerp_(parameter.grad, 1 - beta1)
        state["second"].mul_(beta2).addcmul_(parameter.grad, parameter.grad, value=1 - beta2)
        size = group["lr"] / (1 - beta1 ** state["step"])
        spread = (state["second"] / (1 - beta2 ** state["step"])).sqrt_().add_(EPSILON)
        parameter.mul_(1 - group["lr"] * group["weight_decay"]).addcdiv_(state["first"], spread, value=-size)


def shared_orthogonalisation(directions: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """:func:`orthogonalised` of every matrix on every process, each computed by one process only.

    The processes fill their part of one zero vector and add the vectors up, which is exact.
    """
    world, rank = (dist.get_world_size(), dist.get_rank()) if dist.is_initialized() else (1, 0)
    owners = divided([direction.numel() * min(direction.shape) for direction in directions], world)
    sizes = [direction.numel() for direction in directions]
    flat = directions[0].new_zeros(sum(sizes))
    parts = [part.view(one.shape) for part, one in zip(flat.split(sizes), directions, strict=True)]
    for owner, part, direction in zip(owners, parts, directions, strict=True):
        if owner == rank:
            part.copy_(orthogonalised(direction, dtype))
    if world > 1:
        dist.all_reduce(flat)
    return parts


def divided(costs: list[int], num_owners: int) -> list[int]:
    """An owner for every cost so that their sums are about equal: the dearest first, to the one with least so far."""
    owners, loads = [0] * len(costs), [0] * num_owners
    for place in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        owners[place] = loads.index(min(loads))
        loads[owners[place]] += costs[place]
    return owners
