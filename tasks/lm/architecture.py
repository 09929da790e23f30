"""A LLaMA-like causal model from a handful of numbers.

RMSNorm, rotary positions, SwiGLU and grouped-query attention (Touvron et al. 2023, arXiv:2302.13971; Ainslie et
al. 2023, arXiv:2305.13245). The model is transformers' own ``LlamaForCausalLM``, so that every tool which reads a
LLaMA reads this one too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import LlamaConfig, LlamaForCausalLM

from tasks.core.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The numbers that make an architecture."""

    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    ffn_size: int
    sequence_length: int
    tie_embeddings: bool
    initializer_range: float
    zero_residual: bool
    """Start every block as the identity: its two projections into the residual stream are zero."""


def build_model(shape: Shape, *, vocab_size: int, eos_id: int, seed: int) -> LlamaForCausalLM:
    """A freshly initialised fp32 model on the CPU; the weights depend on ``shape``, ``vocab_size`` and ``seed`` only.

    The global random state of torch is left as it was.
    """
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.ffn_size,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        num_key_value_heads=shape.num_kv_heads,
        max_position_embeddings=shape.sequence_length,
        initializer_range=shape.initializer_range,
        tie_word_embeddings=shape.tie_embeddings,
        bos_token_id=eos_id,
        eos_token_id=eos_id,
        pad_token_id=eos_id,
        attention_dropout=0.0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    if shape.zero_residual:
        for block in model.model.layers:
            torch.nn.init.zeros_(block.self_attn.o_proj.weight)
            torch.nn.init.zeros_(block.mlp.down_proj.weight)
    model.generation_config.max_length = shape.sequence_length
    return model


def load_model(folder: Path) -> LlamaForCausalLM:
    """The model of a folder in fp32 on the CPU, ready to be trained on; its weights are those of the file to the bit.

    Read from safetensors and from this disk only: nothing is unpickled or downloaded.

    Raises:
        DataError: when the folder holds no such model, or its weights are not just those that the model has.
    """
    try:
        model, told = LlamaForCausalLM.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, use_safetensors=True, output_loading_info=True
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise DataError(
            f"{folder} is not a model to train on from: {error}", subject=str(folder), next_step="train it again"
        ) from error
    wrong = [f"{name}: {told[name]}" for name in ("missing_keys", "unexpected_keys", "mismatched_keys") if told[name]]
    if wrong:
        raise DataError(
            f"the weights in {folder} are not those of its config.json: {'; '.join(wrong)}",
            subject=str(folder),
            next_step="train it again",
        )
    return model.train()


def num_parameters(model: torch.nn.Module) -> int:
    """Number of different weights; a tied embedding counts once."""
    return sum(parameter.numel() for parameter in model.parameters())
