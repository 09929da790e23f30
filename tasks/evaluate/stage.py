"""Measure a model on text it has not seen: bits per byte, translation, a look at what it writes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM
from upath import UPath

from tasks.core import events
from tasks.core.errors import ConfigError, DataError, GateError
from tasks.core.transfer import local_copy
from tasks.evaluate.comparison import compare
from tasks.evaluate.config import EvaluateConfig
from tasks.evaluate.continuations import write_continuations
from tasks.evaluate.held_out import Floats, HeldOut, check_batch_invariance, read_held_out, tables
from tasks.evaluate.pairs import read_pairs
from tasks.evaluate.translation import evaluate_translation
from tasks.lm.encoding import load_tokenizer, same_tokenizer
from tasks.lm.ngram import KneserNey, Unigram
from tasks.lm.perplexity import stream_bits
from tasks.lm.token_shards import TokenShards

VERSION = 1
EVALUATION = "evaluation.json"
MAX_SOURCES = 24
MAX_EXCERPT_CHARS = 240


@dataclass(frozen=True)
class EvaluateResult:
    """What ``evaluation.json`` holds, short enough to pass on; bits are per UTF-8 byte of text."""

    split: str
    window: int
    stride: int
    num_baseline_tokens: int
    """Tokens of the train split the n-gram models learned from."""
    total: dict[str, Any]
    by_language: dict[str, Any]
    by_source: dict[str, Any]
    """At most the 24 largest sources; the file has all."""
    vs_unigram: float
    """The model's bits over the unigram's: below 1 is better."""
    vs_kneser_ney: float
    """The model's bits over those of the interpolated modified Kneser-Ney 5-gram."""
    vs_champion: dict[str, Any] | None
    """The model's bits over those of the model in service: ratio (below 1 is better), low and high of its 95% interval,
    and by_language; None when none was given."""
    bleu: dict[str, Any] | None
    why_no_bleu: str
    continuations: list[dict[str, str]]


def run(
    config: EvaluateConfig, model: UPath, shards: UPath, documents: UPath, champion: UPath | None = None, *, out: UPath
) -> EvaluateResult:
    """Evaluate a Hugging Face model folder on one split; writes ``evaluation.json``.

    ``champion`` is the model in service, made with the same tokenizer; it is scored on the same tokens in the same
    windows. It decides nothing here: the numbers are for whoever promotes.

    Raises:
        DataError: when the split is empty, or the model or the champion is none, does not fit the tokens or gives no
            finite numbers.
        ConfigError: when window, stride or a prompt does not fit the model's context, or the window the champion's.
        GateError: when scores depend on the batch, or a ratio is above its gate.
    """
    given = local_copy(champion) if champion else nullcontext()
    with local_copy(model) as model_folder, local_copy(shards) as shards_folder, given as champion_folder:
        network = load_network(config, model_folder)
        tokenizer = load_tokenizer(model_folder)
        if champion_folder:
            check_same_tokenizer(model_folder, champion_folder)
        train, held = (TokenShards(shards_folder, split) for split in ("train", config.split))
        held_out = read_held_out(held)
        window, stride = window_and_stride(config, network.config.max_position_embeddings)
        bits = {"model": score_model(config, network, held_out, window, stride)}
        if champion_folder:
            bits["champion"] = score_champion(config, champion_folder, held_out, window, stride)
        baselines, num_baseline_tokens = score_baselines(config, train, held_out)
        rows = tables(held_out, bits | baselines)
        reach = {"eos_id": held.eos_id, "max_length": network.config.max_position_embeddings}
        with timed("translation_s"):
            pairs = (read_pairs(documents, frozenset(one.documents["id"].to_pylist())) for one in (held, train))
            bleu, why_no_bleu = evaluate_translation(config, network, tokenizer, *pairs, out=out, **reach)
        with timed("continuations_s"):
            written = write_continuations(config, network, tokenizer, out=out, **reach)
    per_byte = rows["total"]["bits_per_byte"]
    result = EvaluateResult(
        split=config.split,
        window=window,
        stride=stride,
        num_baseline_tokens=num_baseline_tokens,
        **rows,
        vs_unigram=round(per_byte["model"] / per_byte["unigram"], 4),
        vs_kneser_ney=round(per_byte["model"] / per_byte["kneser_ney"], 4),
        vs_champion=compare(config, held_out, bits["model"], bits["champion"]) if champion else None,
        bleu=bleu,
        why_no_bleu=why_no_bleu,
        continuations=written,
    )
    write_numbers(result, out)
    check_gates(config, result)
    return shortened(result)


def load_network(config: EvaluateConfig, folder: Path) -> Any:
    """The model in fp32, in evaluation mode, where the configuration wants it.

    Raises:
        DataError: when the folder holds no model that transformers can load as a causal language model.
    """
    torch.set_num_threads(config.threads or len(os.sched_getaffinity(0)))
    device = ("cuda" if torch.cuda.is_available() else "cpu") if config.device == "auto" else config.device
    try:
        network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{folder} is not a causal language model: {error}", subject=str(folder), next_step="train the model again"
        ) from error
    return network.to(device).eval()


def window_and_stride(config: EvaluateConfig, context: int) -> tuple[int, int]:
    """The window (by default all of the model's context) and the stride (by default half the window).

    Raises:
        ConfigError: when the window is longer than the context or the stride than the window.
    """
    window = config.window or context
    stride = config.stride or window // 2
    problems = []
    if window > context:
        problems.append(f"evaluate.window: must be at most the model's context of {context} (got {window})")
    if stride > window:
        problems.append(f"evaluate.stride: must be at most the window of {window} (got {stride})")
    if problems:
        raise ConfigError("stage evaluate is not valid", problems)
    return window, stride


def score_model(
    config: EvaluateConfig, network: Any, held_out: HeldOut, window: int, stride: int, *, who: str = "model"
) -> Floats:
    """Bits the model needs for each held-out token, checked to be finite and independent of the batch.

    ``who`` it is, for messages and metrics.
    """
    of = "" if who == "model" else f"/{who}"
    if network.config.vocab_size < held_out.vocab_size:
        raise DataError(
            f"the {who} knows {network.config.vocab_size} tokens, the shards use {held_out.vocab_size}",
            next_step=f"evaluate the {who} on shards made with its own tokenizer",
        )
    begun = time.perf_counter()
    bits = stream_bits(
        network,
        held_out.tokens,
        eos_id=held_out.eos_id,
        window=window,
        stride=stride,
        batch_tokens=config.batch_tokens,
    )
    events.metric(f"scored_tokens_per_s{of}", len(bits) / (time.perf_counter() - begun))
    if not np.isfinite(bits).all():
        wrong = np.count_nonzero(~np.isfinite(bits))
        raise DataError(
            f"the {who} gives no finite probability for {wrong} of {len(bits)} tokens",
            next_step="look at the training loss; the weights hold NaN or infinity",
        )
    difference = check_batch_invariance(network, held_out, bits, window=window, stride=stride)
    events.metric(f"batch_difference{of}", difference)
    return bits


def check_same_tokenizer(model: Path, champion: Path) -> None:
    """Refuse to compare bits of different tokens.

    Raises:
        DataError: when the champion was made with another tokenizer than the model.
    """
    if not same_tokenizer(model, champion):
        raise DataError(
            "the champion was made with another tokenizer than the model: its tokenizer.json differs",
            subject=str(champion),
            next_step="train the model with the champion's tokenizer, or evaluate it without a champion",
        )


def score_champion(config: EvaluateConfig, folder: Path, held_out: HeldOut, window: int, stride: int) -> Floats:
    """Bits the model in service needs for each held-out token, in the windows of the model it is compared with.

    Raises:
        ConfigError: when its context is shorter than the window.
    """
    network = load_network(config, folder)
    context = network.config.max_position_embeddings
    if window > context:
        problem = f"evaluate.window: must be at most the champion's context of {context} (got {window})"
        raise ConfigError("stage evaluate is not valid", [problem])
    return score_model(config, network, held_out, window, stride, who="champion")


def score_baselines(config: EvaluateConfig, train: TokenShards, held_out: HeldOut) -> tuple[dict[str, Floats], int]:
    """Bits each n-gram model needs for each held-out token, and how many train tokens they learned from."""
    learned = train.window(0, min(train.num_tokens, config.max_baseline_tokens))
    if not len(learned):
        raise DataError("the train split holds no tokens", subject=str(train.folder))
    with timed("kneser_ney_s"):
        kneser_ney = KneserNey(learned, held_out.vocab_size, held_out.eos_id)
        bits = kneser_ney.bits(held_out.tokens)
    unigram = Unigram(learned, held_out.vocab_size)
    return {"unigram": unigram.bits(held_out.tokens), "kneser_ney": bits}, len(learned)


def write_numbers(result: EvaluateResult, out: UPath) -> None:
    """Write ``evaluation.json``: all of the result but the continuations."""
    numbers = {name: value for name, value in asdict(result).items() if name != "continuations"}
    (out / EVALUATION).write_text(json.dumps(numbers, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def check_gates(config: EvaluateConfig, result: EvaluateResult) -> None:
    """Refuse a model that is not enough better than its baselines.

    Raises:
        GateError: naming every ratio above its gate.
    """
    problems = [
        f"{ratio:.4f} of the {baseline}'s bits per byte, at most {limit:g} is allowed (evaluate.max_vs_{knob})"
        for knob, baseline, ratio, limit in (
            ("unigram", "unigram model", result.vs_unigram, config.max_vs_unigram),
            ("kneser_ney", "Kneser-Ney 5-gram", result.vs_kneser_ney, config.max_vs_kneser_ney),
        )
        if limit is not None and ratio > limit
    ]
    if problems:
        raise GateError(
            f"on the {result.split} split the model needs {'; and '.join(problems)}",
            next_step="train on more tokens, or loosen the gate",
        )


def shortened(result: EvaluateResult) -> EvaluateResult:
    """The result with the largest sources and the beginnings of the continuations only."""
    largest = sorted(result.by_source, key=lambda name: (-result.by_source[name]["num_bytes"], name))[:MAX_SOURCES]
    return replace(
        result,
        by_source={name: result.by_source[name] for name in sorted(largest)},
        continuations=[{name: text[:MAX_EXCERPT_CHARS] for name, text in one.items()} for one in result.continuations],
    )


@contextmanager
def timed(name: str) -> Iterator[None]:
    """Report the seconds a block took."""
    begun = time.perf_counter()
    yield
    events.metric(name, time.perf_counter() - begun)
