"""Which earlier models a training goes on from; files alone decide it."""

from __future__ import annotations

import json
import shutil

import pytest

from tasks.core.errors import ConfigError, DataError
from tasks.train.config import TrainConfig
from tasks.train.initial import SHAPE, check_initial


@pytest.fixture
def tokenizer(tmp_path):
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    return folder


@pytest.fixture
def model(tmp_path, tokenizer):
    """The part of a model that fits the default knobs and a vocabulary of 300."""
    folder, knobs = tmp_path / "model", TrainConfig()
    folder.mkdir()
    shutil.copyfile(tokenizer / "tokenizer.json", folder / "tokenizer.json")
    shape = {name: getattr(knobs, knob) for knob, name in SHAPE.items()}
    (folder / "config.json").write_text(json.dumps({**shape, "vocab_size": 300}), encoding="utf-8")
    return folder


def test_a_model_of_the_same_shape_and_tokenizer_is_trained_on(model, tokenizer):
    check_initial(TrainConfig(lr=0.001, seed=9), model, vocab_size=300, tokenizer=tokenizer)


@pytest.mark.parametrize(
    ("knob", "value"),
    [("num_layers", 5), ("hidden_size", 384), ("num_heads", 6), ("num_kv_heads", 1), ("ffn_size", 513),
     ("sequence_length", 128), ("tie_embeddings", False)],
)  # fmt: skip
def test_each_knob_of_the_shape_is_compared(model, tokenizer, knob, value):
    theirs = getattr(TrainConfig(), knob)
    with pytest.raises(ConfigError, match=rf"train\.{knob}: is {value}, the initial model has {theirs}"):
        check_initial(TrainConfig(**{knob: value}), model, vocab_size=300, tokenizer=tokenizer)


def test_all_differences_are_named_at_once(model, tokenizer):
    (tokenizer / "tokenizer.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        check_initial(TrainConfig(num_layers=5, ffn_size=513), model, vocab_size=301, tokenizer=tokenizer)
    assert [line.split(":")[0].strip() for line in refused.value.problems] == [
        "train.num_layers",
        "train.ffn_size",
        "the shards have a vocabulary of 301, the initial model has 300",
        "the tokenizer.json beside the initial model is not the given tokenizer's",
    ]


def test_another_vocabulary_is_refused(model, tokenizer):
    with pytest.raises(DataError, match=r"vocabulary of 301, the initial model has 300$"):
        check_initial(TrainConfig(), model, vocab_size=301, tokenizer=tokenizer)


def test_another_tokenizer_of_the_same_size_is_refused(model, tokenizer):
    (tokenizer / "tokenizer.json").write_text("[]", encoding="utf-8")
    with pytest.raises(DataError, match=r"ids mean other tokens: the tokenizer\.json"):
        check_initial(TrainConfig(), model, vocab_size=300, tokenizer=tokenizer)


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json"])
def test_a_folder_without_a_model_is_refused(model, tokenizer, missing):
    (model / missing).unlink()
    with pytest.raises(DataError, match=rf"has no {missing}"):
        check_initial(TrainConfig(), model, vocab_size=300, tokenizer=tokenizer)
