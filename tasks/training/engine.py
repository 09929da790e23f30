"""Joining the other processes, and DeepSpeed's engine around a model."""

from __future__ import annotations

import importlib.util
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import deepspeed
import torch
from deepspeed.ops.op_builder.builder import OpBuilder

from tasks.training import extension
from tasks.training.deepspeed_config import deepspeed_config
from tasks.training.device import has_accelerator
from tasks.training.generators import seed_generators
from tasks.training.optimizer import MuonAdamW, parameter_groups
from tasks.training.plan import Plan

COLLECTIVE_TIMEOUT = timedelta(minutes=10)
"""A process waits at most this long for the others, who may be saving."""

Engine = Any
"""``deepspeed.DeepSpeedEngine``, which has no types."""


def join_group(plan: Plan, meeting: Path) -> None:
    """Join the other processes of this machine (gloo on CPUs, NCCL on CUDA) and seed every generator.

    ``meeting`` is a file that is not there yet, the same for all of them.
    """
    if not has_accelerator():
        preload_extension()
    rank = int(os.environ["RANK"])
    deepspeed.init_distributed(
        auto_mpi_discovery=False,
        verbose=False,
        timeout=COLLECTIVE_TIMEOUT,
        init_method=f"file://{meeting}",
        rank=rank,
        world_size=plan.num_processes,
    )
    seed_generators(plan.seed + rank)


def preload_extension() -> None:
    """Give DeepSpeed the library that set-up built, so that it need not look for it.

    Its own way takes a lock file for each load; one left by a process that was killed there blocks all later ones.
    """
    spec = importlib.util.spec_from_file_location(extension.NAME, extension.ensure_built())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    OpBuilder._loaded_ops[extension.NAME] = module


def make_engine(model: torch.nn.Module, plan: Plan) -> Engine:
    """A DeepSpeed engine around a model that was built plainly.

    Building under ``deepspeed.zero.Init`` would initialise empty shards (a first loss of 87 instead of
    ln(vocabulary)), so it is not done.
    """
    matrix_lr = plan.matrix_lr if plan.optimizer == "muon" else None
    groups = parameter_groups(
        model,
        matrix_lr=matrix_lr,
        momentum=plan.momentum,
        lr=plan.lr,
        betas=(plan.beta1, plan.beta2),
        weight_decay=plan.weight_decay,
    )
    dtype = torch.bfloat16 if plan.precision == "bf16" else torch.float32
    optimizer = MuonAdamW(groups, dtype=dtype)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=deepspeed_config(plan))
    return engine
