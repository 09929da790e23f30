"""Trains the model: checks that the data suffice, launches the processes, brings the result home."""

from __future__ import annotations

import math
import shutil
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upath import UPath

from tasks.core import events, workspace
from tasks.core.errors import ConfigError, DataError
from tasks.core.transfer import local_copy, local_output
from tasks.lm.token_shards import TokenShards
from tasks.train.config import TrainConfig
from tasks.train.fingerprint import precision_of
from tasks.train.initial import check_initial
from tasks.training import exactly_once
from tasks.training.device import Precision, has_accelerator, num_accelerators
from tasks.training.exchange import Exchange
from tasks.training.launch import run_training
from tasks.training.plan import Plan

VERSION = 1
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """What was trained, and how far it came."""

    num_parameters: int
    """A tied embedding counts once."""
    num_tokens: int
    """Tokens trained on, repeated ones counted again."""
    num_steps: int
    num_epochs: float
    """How often the training split was read."""
    num_whole_epochs: int
    """Epochs in which every sample was read exactly once, as the ledger proves."""
    num_samples_seen: int
    """Samples of the training split that were read at all."""
    num_skipped_steps: int
    """Steps without a finite loss and gradient, which changed nothing."""
    precision: Precision
    initial_validation_loss: float | None
    """That of the initial model before the first step, measured as validation_loss; None without an initial model."""
    first_loss: float
    """Nats per token before the first update."""
    final_train_loss: float
    """Nats per token, mean of the last logged steps."""
    validation_loss: float | None
    """Nats per token of the validation split, in windows of sequence_length without overlap; None when it is empty."""
    validation_bits_per_byte: float | None
    """The same as bits per byte of the documents' UTF-8 text."""


def run(
    config: TrainConfig, shards: UPath, tokenizer: UPath, initial: UPath | None = None, *, out: UPath
) -> TrainResult:
    """Train on the ``train`` split; writes a Hugging Face model folder with its tokenizer.

    With ``initial``, an earlier artifact of this stage, the weights start as that model's. The optimizer, the
    learning rate schedule with its warm-up, and the count of steps start anew.

    Killed or stopped, the same call continues from the newest whole checkpoint in the workspace, and makes the same
    bytes on the same machine with the same number of processes. With another number it reads the same samples, and
    its sums round differently.

    Raises:
        DataError: the shards hold too few tokens, or the initial model was made with another tokenizer.
        GateError: the first loss is not that of guessing, or with ``initial`` not below it; the loss stopped being
            finite; or the ledger does not show every sample exactly once per epoch.
        ConfigError: more processes than GPUs, an initial model of another shape, or checkpoints that this number of
            processes cannot read.
        TryAgain: interrupted; a checkpoint was saved.
    """
    exchange = Exchange(workspace.current())
    given = local_copy(initial) if initial else nullcontext()
    with local_copy(shards) as folder, local_copy(tokenizer) as tokenizer_folder, given as initial_folder:
        train = TokenShards(folder, "train")
        check_enough(train, config)
        if initial_folder:
            check_initial(config, initial_folder, vocab_size=train.vocab_size, tokenizer=tokenizer_folder)
        plan = plan_of(config, train, starts_trained=initial is not None)
        job = job_of(config, folder, train, initial_folder)
        outcome = run_training("tasks.train.worker:pretrain", job, plan, exchange)
        proof = exactly_once.check(exchange.ledger)
        events.note(f"sample ledger: {proof}")
        with local_output(out) as made:
            bring_home(exchange, tokenizer_folder, made)
    if outcome["validation_loss"] is not None:
        events.metric("validation_loss", outcome["validation_loss"], plan.num_steps)
    return TrainResult(
        num_parameters=outcome["num_parameters"],
        num_tokens=plan.num_steps * plan.tokens_per_step,
        num_steps=plan.num_steps,
        num_epochs=round(plan.num_steps * plan.global_batch / train.num_samples(config.sequence_length), 4),
        num_whole_epochs=proof.num_whole_epochs,
        num_samples_seen=proof.num_different,
        num_skipped_steps=outcome["num_skipped_steps"],
        precision=plan.precision,
        initial_validation_loss=outcome["initial_validation_loss"],
        first_loss=outcome["first_loss"],
        final_train_loss=outcome["final_train_loss"],
        validation_loss=outcome["validation_loss"],
        validation_bits_per_byte=outcome["validation_bits_per_byte"],
    )


def check_enough(train: TokenShards, config: TrainConfig) -> None:
    """Refuse a split that cannot fill one batch with different samples.

    Raises:
        DataError: saying how many tokens are needed.
    """
    needed = config.tokens_per_step + 1
    if train.num_tokens < needed:
        raise DataError(
            f"the training split holds {train.num_tokens} tokens; one batch of {config.global_batch} samples of "
            f"{config.sequence_length} tokens needs {needed}",
            subject=str(train.folder),
            next_step="bring more text, or lower train.sequence_length or train.global_batch",
        )


def plan_of(config: TrainConfig, train: TokenShards, *, starts_trained: bool) -> Plan:
    """The run as the loop needs it.

    Raises:
        ConfigError: when there are GPUs, but fewer than processes.
    """
    if has_accelerator() and config.num_processes > num_accelerators():
        raise ConfigError(
            "stage train is not valid",
            [f"train.num_processes: {config.num_processes} processes need as many GPUs; found {num_accelerators()}"],
        )
    return Plan(
        num_steps=config.num_steps,
        global_batch=config.global_batch,
        num_samples=train.num_samples(config.sequence_length),
        tokens_per_sample=config.sequence_length,
        micro_batch=config.samples_per_pass,
        num_processes=config.num_processes,
        zero_stage=config.zero_stage,
        precision=precision_of(config),
        optimizer=config.optimizer,
        matrix_lr=config.matrix_lr,
        momentum=config.momentum,
        lr=config.lr,
        beta1=config.beta1,
        beta2=config.beta2,
        weight_decay=config.weight_decay,
        schedule=config.schedule,
        warmup_share=config.warmup_share,
        clip=config.clip,
        seed=config.seed,
        guessing_loss=math.log(train.vocab_size),
        first_loss_tolerance=config.first_loss_tolerance,
        starts_trained=starts_trained,
        max_skipped_steps=config.max_skipped_steps,
        log_every=config.log_every,
        validation_every=config.validation_every,
        checkpoint_every=config.checkpoint_every,
    )


def job_of(config: TrainConfig, shards: Path, train: TokenShards, initial: Path | None) -> dict[str, Any]:
    """What the processes need besides the plan, as JSON values."""
    return {
        "shards": str(shards),
        "initial": str(initial) if initial else None,
        "vocab_size": train.vocab_size,
        "eos_id": train.eos_id,
        "shape": {
            "num_layers": config.num_layers,
            "hidden_size": config.hidden_size,
            "num_heads": config.num_heads,
            "num_kv_heads": config.num_kv_heads,
            "ffn_size": config.ffn_size,
            "sequence_length": config.sequence_length,
            "tie_embeddings": config.tie_embeddings,
            "initializer_range": config.initializer_range,
            "zero_residual": config.zero_residual,
        },
    }


def bring_home(exchange: Exchange, tokenizer: Path, made: Path) -> None:
    """Copy the model, its tokenizer, the loss curve and the ledger into the artifact."""
    shutil.copytree(exchange.model, made, dirs_exist_ok=True)
    for name in TOKENIZER_FILES:
        shutil.copyfile(tokenizer / name, made / name)
    (made / "report").mkdir(exist_ok=True)
    shutil.copyfile(exchange.curve, made / "report" / exchange.curve.name)
    shutil.copytree(exchange.ledger, made / "report" / exchange.ledger.name)
