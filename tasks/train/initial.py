"""Whether an earlier model can be trained on from: its shape is that of the knobs, its token ids mean the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.core.errors import ConfigError, DataError
from tasks.lm.encoding import same_tokenizer
from tasks.train.config import TrainConfig

SHAPE = {
    "num_layers": "num_hidden_layers",
    "hidden_size": "hidden_size",
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "ffn_size": "intermediate_size",
    "sequence_length": "max_position_embeddings",
    "tie_embeddings": "tie_word_embeddings",
}
"""Each knob that decides the shape, and its name in the ``config.json`` of a model."""


def check_initial(config: TrainConfig, folder: Path, *, vocab_size: int, tokenizer: Path) -> None:
    """Refuse a model that these knobs, or tokens made with this tokenizer, do not continue.

    Args:
        folder: an earlier artifact of the stage.
        vocab_size: of the token shards.
        tokenizer: folder of the tokenizer that made them.

    Raises:
        ConfigError: naming every knob whose value is not the model's, and other tokens too when they differ besides.
        DataError: the model has another vocabulary or tokenizer, or the folder holds no model.
    """
    model = model_config(folder)
    shape, tokens = shape_differences(config, model), token_differences(model, folder, vocab_size, tokenizer)
    if shape:
        raise ConfigError(
            f"stage train cannot train on from {folder}",
            [*shape, *tokens],
            next_step="give the knobs the model's values, or leave the initial model out",
        )
    if tokens:
        raise DataError(
            f"the initial model's token ids mean other tokens: {'; '.join(tokens)}",
            subject=str(folder),
            next_step="make the shards with the tokenizer of the initial model, or leave that model out",
        )


def model_config(folder: Path) -> dict[str, Any]:
    """The ``config.json`` of a model.

    Raises:
        DataError: when there is none.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise DataError(f"{folder} has no {path.name}", subject=str(folder), next_step="give a model that train made")
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def shape_differences(config: TrainConfig, model: Mapping[str, Any]) -> list[str]:
    """A line for each knob whose value is not the model's."""
    return [
        f"train.{knob}: is {getattr(config, knob)}, the initial model has {model.get(name)}"
        for knob, name in SHAPE.items()
        if getattr(config, knob) != model.get(name)
    ]


def token_differences(model: Mapping[str, Any], folder: Path, vocab_size: int, tokenizer: Path) -> list[str]:
    """What makes an id mean another token to the model than in the shards."""
    found = []
    if model.get("vocab_size") != vocab_size:
        found.append(f"the shards have a vocabulary of {vocab_size}, the initial model has {model.get('vocab_size')}")
    if not same_tokenizer(folder, tokenizer):
        found.append("the tokenizer.json beside the initial model is not the given tokenizer's")
    return found
