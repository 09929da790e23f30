"""A LLaMA-like causal model from a handful of numbers.

RMSNorm, rotary positions, SwiGLU and grouped-query attention (Touvron et al. 2023, arXiv:2302.13971; Ainslie et
al. 2023, arXiv:2305.13245). The model is transformers' own ``LlamaForCausalLM``, so that every tool which reads a
LLaMA reads this one too.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import LlamaConfig, LlamaForCausalLM


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


def num_parameters(model: torch.nn.Module) -> int:
    """Number of different weights; a tied embedding counts once."""
    return sum(parameter.numel() for parameter in model.parameters())
