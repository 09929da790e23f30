"""A small plan, for tests to vary."""

from __future__ import annotations

from tasks.training.plan import Plan


def plan(**changes) -> Plan:
    values = {
        "num_steps": 10, "global_batch": 24, "num_samples": 100, "tokens_per_sample": 16, "micro_batch": 2,
        "num_processes": 3, "zero_stage": 0, "precision": "fp32", "optimizer": "muon", "matrix_lr": 0.03,
        "momentum": 0.95, "lr": 0.02, "beta1": 0.9, "beta2": 0.95, "weight_decay": 0.0,
        "schedule": "cosine", "warmup_share": 0.1, "clip": 1.0, "seed": 1, "guessing_loss": None,
        "first_loss_tolerance": 0.5, "starts_trained": False, "max_skipped_steps": 3, "log_every": 1,
        "validation_every": 0, "checkpoint_every": 0,
    }  # fmt: skip
    return Plan(**{**values, **changes})
