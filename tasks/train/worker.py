"""What each of the processes of a training does."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch.distributed as dist

from tasks.lm.architecture import Shape, build_model, load_model, num_parameters
from tasks.lm.token_shards import TokenShards
from tasks.train.causal_text import CausalText
from tasks.training.engine import join_group, make_engine
from tasks.training.exchange import Exchange, write_json
from tasks.training.loop import train
from tasks.training.plan import Plan


def pretrain(exchange: Exchange, job: dict[str, Any]) -> None:
    """Build or load the model, train it to the end of the plan, and leave model and outcome in the exchange."""
    plan, shape = Plan(**job["plan"]), Shape(**job["shape"])
    join_group(plan, exchange.group)
    if plan.starts_trained:
        model = load_model(Path(job["initial"]))
    else:
        model = build_model(shape, vocab_size=job["vocab_size"], eos_id=job["eos_id"], seed=plan.seed)
    engine = make_engine(model, plan)
    folder = Path(job["shards"])
    validation = TokenShards(folder, "validation")
    text = CausalText(TokenShards(folder, "train"), validation, sequence_length=shape.sequence_length, seed=plan.seed)
    ending = train(engine, text, plan, exchange, resume=job["resume"], supervisor=job["supervisor"])
    held_out = text.validation_loss(engine) if ending.finished else None
    if dist.get_rank() == 0:
        if ending.finished:
            model.save_pretrained(exchange.model)
        write_json(
            exchange.outcome,
            {
                "finished": ending.finished,
                "step": ending.progress.step,
                "num_parameters": num_parameters(model),
                "num_skipped_steps": ending.progress.skipped,
                "initial_validation_loss": ending.progress.initial_validation_loss,
                "first_loss": ending.progress.first_loss,
                "final_train_loss": ending.progress.last_loss,
                "validation_loss": held_out,
                "validation_bits_per_byte": bits_per_byte(held_out, validation),
            },
        )
    dist.barrier()
    dist.destroy_process_group()


def bits_per_byte(loss: float | None, split: TokenShards) -> float | None:
    """Nats per token of a split as bits per byte of its text; None for an empty split."""
    if loss is None or split.num_bytes == 0:
        return None
    return loss * split.num_tokens / math.log(2) / split.num_bytes
