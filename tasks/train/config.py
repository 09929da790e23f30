"""Knobs of the train stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from tasks.core.config import Config, dial, later, runtime
from tasks.training.plan import batch_problems, zero_problems

Count = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Config):
    """Train a LLaMA-like causal language model on token shards."""

    train_tokens: Count = dial(2_800_000)
    """Tokens to train on, rounded down to whole steps; more than the corpus has means that it is read again."""
    num_layers: Count = 4
    """Transformer blocks."""
    hidden_size: Count = 192
    """Width of the residual stream."""
    num_heads: Count = 3
    """Attention heads; hidden_size divided by it is the head size."""
    num_kv_heads: Count = 3
    """Key and value heads; fewer than num_heads is grouped-query attention and a smaller cache."""
    ffn_size: Count = 512
    """Width of the SwiGLU feed-forward layer."""
    sequence_length: Annotated[int, Field(ge=2)] = 256
    """Tokens per sample, and the longest context of the model."""
    tie_embeddings: bool = True
    """Use the input embedding as the output layer too; saves vocabulary times hidden_size weights."""
    initializer_range: Rate = 0.02
    """Standard deviation of fresh weights. Logits of an untrained model have the variance hidden_size times its
    square, half of which adds to the first loss: choose it smaller for a hidden_size of thousands."""
    zero_residual: bool = True
    """Let every block start as the identity, by zeros in its two projections into the residual stream (as Zhang et al.
    2019, arXiv:1901.09321, section 3); a short training gets further with it."""
    global_batch: Count = 8
    """Samples per optimizer step, over all processes and accumulation."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Number format of the matrix products; weights are always kept in fp32. "auto" is bf16 on a GPU or a CPU that has
    bf16 instructions and fp32 elsewhere; which one it was enters the artifact's identity."""
    optimizer: Literal["muon", "adamw"] = "muon"
    """What trains the matrices of the blocks; embeddings and norms always train with AdamW."""
    matrix_lr: Rate = 0.03
    """Peak learning rate of Muon."""
    momentum: Share = later(0.95, neutral=0.95)
    """Momentum of Muon. A run of a thousand steps does better with less: 0.85."""
    lr: Rate = 0.02
    """Peak learning rate of AdamW. With optimizer adamw, which then trains the matrices too, 0.003 is a good start."""
    beta1: Share = later(0.9, neutral=0.9)
    """How slowly AdamW's mean of the gradient moves; less for a short run, as with momentum."""
    beta2: Share = later(0.95, neutral=0.95)
    """How slowly AdamW's mean of the squared gradient moves."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Decoupled weight decay of the matrices of the blocks."""
    schedule: Literal["cosine", "wsd"] = "cosine"
    """After the warm-up: half a cosine to 2% of the peak, or constant and then a line to 2% over the last 60%."""
    warmup_share: Share = 0.03
    """Share of the steps in which the learning rate rises."""
    clip: Rate = 1.0
    """Gradients longer than this are scaled down to it."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    """Decides the fresh weights, unless an initial model gives them, and the order of the samples."""
    first_loss_tolerance: Rate = 0.5
    """How far, in nats, the first loss may be from ln(vocabulary) before the run is refused; how far below it the one
    of an initial model must be."""
    max_skipped_steps: Count = 10
    """Steps in a row without a finite loss and gradient after which the run is refused."""
    num_processes: Count = runtime(2)
    """Training processes on this machine; with GPUs, one for each. A run can be resumed with another number; with
    zero_stage 1 or 2 only with the same."""
    micro_batch: Annotated[int, Field(ge=0)] = runtime(0)
    """Samples per process and forward pass; what is missing to global_batch is accumulated. 0: no accumulation."""
    zero_stage: Literal[0, 1, 2] = runtime(0)
    """What DeepSpeed divides among the processes: 0 nothing, 1 optimizer state, 2 gradients too (needs adamw)."""
    log_every: Count = runtime(10)
    """Steps between two points of the loss curve."""
    validation_every: Annotated[int, Field(ge=0)] = runtime(250)
    """Steps between two validations; 0 validates at the end only."""
    checkpoint_every: Annotated[int, Field(ge=0)] = runtime(250)
    """Steps between two checkpoints; 0 saves only at the end or when asked to stop."""

    def __post_init__(self) -> None:
        problems = [
            *shape_problems(self.hidden_size, self.num_heads, self.num_kv_heads),
            *batch_problems(
                global_batch=self.global_batch,
                micro_batch=self.samples_per_pass,
                num_processes=self.num_processes,
            ),
            *zero_problems(zero_stage=self.zero_stage, optimizer=self.optimizer),
        ]
        if self.train_tokens < self.tokens_per_step:
            problems.append(f"train_tokens {self.train_tokens} is less than one step's {self.tokens_per_step}")
        if problems:
            raise ValueError("; ".join(problems))

    @property
    def samples_per_pass(self) -> int:
        """``micro_batch``, or what it is when left to us."""
        return self.micro_batch or max(1, self.global_batch // self.num_processes)

    @property
    def tokens_per_step(self) -> int:
        return self.global_batch * self.sequence_length

    @property
    def work(self) -> float:
        """Tokens times the weights of the blocks, to which the time of a training is about proportional."""
        kv_size = self.hidden_size // self.num_heads * self.num_kv_heads
        weights = self.num_layers * self.hidden_size * (2 * self.hidden_size + 2 * kv_size + 3 * self.ffn_size)
        return float(self.num_steps * self.tokens_per_step) * weights

    @property
    def num_steps(self) -> int:
        return self.train_tokens // self.tokens_per_step


def shape_problems(hidden_size: int, num_heads: int, num_kv_heads: int) -> list[str]:
    """What makes a shape impossible, one line each; empty when it can be built."""
    problems = []
    if hidden_size % num_heads or hidden_size // num_heads % 2:
        problems.append(f"hidden_size {hidden_size} must be num_heads {num_heads} times an even head size")
    if num_heads % num_kv_heads:
        problems.append(f"num_heads {num_heads} must be a multiple of num_kv_heads {num_kv_heads}")
    return problems
