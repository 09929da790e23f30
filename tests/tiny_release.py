"""A tiny model that was really trained, its shards, its compressed form and its bento: made once per test session."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from upath import UPath

from tasks.compress.config import CompressConfig
from tasks.compress.stage import run as compress
from tasks.package.config import PackageConfig
from tasks.package.stage import run as package
from tests.shards.stored import store_tokens

CONTEXT = 96
SPECIAL = ["<|endoftext|>", "<|user|>", "<|assistant|>", "<|end|>"]
TEXTS = [
    "The headrace carries water from the weir to the wheel. ",
    "When the gate is open the wheel turns and the mill grinds corn. ",
    "The miller listens to the stones: a good stone hums. ",
    "春眠不覺曉，處處聞啼鳥。夜來風雨聲，花落知多少。",
    "水車引水，磨坊整日轉動。白日依山盡，黃河入海流。",
    "English: Open the gate.\nChinese: 打开闸门。",
    "English: Close the gate.\nChinese: 关闭闸门。",
]
SCORES = {
    "split": "test",
    "total": {"num_bytes": 1000, "bits_per_byte": {"model": 1.25, "unigram": 3.5, "kneser_ney": 1.5}},
    "by_language": {"zh": {"bits_per_byte": {"model": 1.5}}},
    "bleu": None,
}


def small_compress_config(**knobs: object) -> CompressConfig:
    """Contracts on little work."""
    few = {"num_windows": 4, "continuation_tokens": 12, "speed_tokens": 4, "speed_rounds": 1}
    return CompressConfig(**(few | knobs))


@cache
def folder() -> UPath:
    """Where everything of this module lies for the session."""
    path = tempfile.mkdtemp(prefix="headrace-tests-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return UPath(path)


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=340, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator(TEXTS, trainer)
    end = SPECIAL[0]
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=end,
        bos_token=end,
        pad_token=end,
        additional_special_tokens=SPECIAL[1:],
        model_input_names=["input_ids", "attention_mask"],
    )


def corpus(seed: int, count: int) -> np.ndarray:
    """Documents of a few texts each, closed by the end token."""
    order = np.random.default_rng(seed)
    documents = ["".join(order.choice(TEXTS, 3)) for _ in range(count)]
    return np.concatenate([[*tokenizer()(one)["input_ids"], 0] for one in documents])


def untrained(seed: int = 0) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer()),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            bos_token_id=0,
            eos_token_id=0,
            pad_token_id=0,
        )
    )


def save_model(model: LlamaForCausalLM, path: UPath) -> UPath:
    model.save_pretrained(str(path))
    tokenizer().save_pretrained(str(path))
    return path


@cache
def model() -> UPath:
    """A model folder as train makes it; a few seconds of training, so that its choices are no ties."""
    network, tokens = untrained(), torch.from_numpy(corpus(1, 200))
    optimizer = torch.optim.AdamW(network.parameters(), lr=5e-3)
    draw = torch.Generator().manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for _ in range(80):
        starts = torch.randint(len(tokens) - 64, (8,), generator=draw).tolist()
        batch = torch.stack([tokens[start : start + 64] for start in starts])
        network(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.set_num_threads(threads)
    return save_model(network.eval(), folder() / "model")


@cache
def shards() -> UPath:
    """A shards folder with a validation split."""
    return write_shards(folder() / "shards", corpus(2, 40))


def write_shards(path: UPath, tokens: np.ndarray) -> UPath:
    rows = {name: pa.array([value]) for name, value in (("id", "0"), ("source", "test"), ("language", "en"))}
    documents = {"validation": [tokens] if len(tokens) else []}
    store_tokens(path, documents, vocab_size=len(tokenizer()), rows={"validation": rows if len(tokens) else {}})
    return path


@cache
def compressed() -> UPath:
    """The compressed model."""
    out = folder() / "compressed"
    compress(small_compress_config(), model(), shards(), out=out)
    return out


@cache
def evaluation() -> UPath:
    out = folder() / "evaluation"
    out.mkdir()
    (out / "evaluation.json").write_text(json.dumps(SCORES))
    return out


PACKAGE = PackageConfig(max_tokens=64, max_prompts=3, max_body_bytes=4096, max_concurrency=4, timeout_s=30)


@cache
def packaged() -> UPath:
    """The packaged model, registered in a registry of this session."""
    out = folder() / "packaged"
    before = os.environ.get("MLFLOW_TRACKING_URI")
    os.environ["MLFLOW_TRACKING_URI"] = registry_uri()
    try:
        package(PACKAGE, compressed(), evaluation(), out=out)
    finally:
        if before is None:
            del os.environ["MLFLOW_TRACKING_URI"]
        else:
            os.environ["MLFLOW_TRACKING_URI"] = before
    return out


def registry_uri() -> str:
    return f"sqlite:///{folder().path}/mlflow.db"


def local(path: UPath) -> Path:
    return Path(path.path)
