"""The one place where a DeepSpeed configuration is written."""

from __future__ import annotations

from typing import Any

from tasks.training.plan import Plan

NEVER = 2**31


def deepspeed_config(plan: Plan) -> dict[str, Any]:
    """DeepSpeed's configuration of a plan.

    At ZeRO stage 0 in fp32 DeepSpeed applies gradients that are not finite, for ever and without a word; so the loop
    itself measures and clips there (``gradient_clipping`` 0) and DeepSpeed does from stage 1 on.
    """
    return {
        "train_batch_size": plan.global_batch,
        "train_micro_batch_size_per_gpu": plan.micro_batch,
        "gradient_accumulation_steps": plan.accumulation,
        "gradient_clipping": plan.clip if plan.zero_stage else 0.0,
        "zero_optimization": {"stage": plan.zero_stage},
        "zero_allow_untested_optimizer": True,
        "torch_autocast": {"enabled": plan.precision == "bf16", "dtype": "bfloat16"},
        "steps_per_print": NEVER,
        "wall_clock_breakdown": False,
    }
