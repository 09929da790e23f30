"""Knobs of the evaluate stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from tasks.core.config import Config, runtime

PROMPTS = (
    "Ownership is a set of rules that",
    "The following example shows how to",
    "In Python, a function can",
    "English: The file could not be opened.\nChinese:",
    "白日依山盡，",
    "春風",
    "要打开此对话框，请",
    "您可以使用",
)


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(Config):
    """Measure a model on held-out text: bits per byte beside n-gram models, translation beside its floors."""

    split: Literal["validation", "test"] = "test"
    """Documents to measure on. Tune on validation; look at test once."""
    window: Annotated[int, Field(ge=2)] | None = None
    """Tokens the model reads at once; empty for all its context."""
    stride: Annotated[int, Field(ge=1)] | None = None
    """Tokens the window moves by; empty for half the window. Smaller gives each token more context and costs more."""
    max_baseline_tokens: Annotated[int, Field(ge=1)] = 20_000_000
    """Tokens of the train split the n-gram models learn from, at most; they are held in memory."""

    num_pairs: Annotated[int, Field(ge=0)] = 300
    """Held-out English-Chinese pairs to translate, at most; 0 leaves BLEU out."""
    min_words: Annotated[int, Field(ge=1)] = 4
    """English words a pair must have to be translated."""
    near_copy: Annotated[float, Field(gt=0, le=1)] = 0.6
    """Word Jaccard similarity, on either side, from which a training pair gives a held-out pair away."""
    max_new_tokens: Annotated[int, Field(ge=1)] = 96
    """Tokens of a translation, at most."""
    repetition_penalty: Annotated[float, Field(gt=0)] = 1.15
    """Penalty on tokens that already stand in the prompt or the translation; 1 for none."""
    num_bootstrap: Annotated[int, Field(ge=2)] = 1000
    """Resamples behind the 95% intervals of BLEU and of the ratio to the champion."""

    prompts: tuple[Annotated[str, Field(min_length=1)], ...] = PROMPTS
    """Beginnings of texts for the model to continue, for people to read."""
    sample_tokens: Annotated[int, Field(ge=1)] = 64
    """Tokens of such a continuation, at most."""
    temperature: Annotated[float, Field(ge=0)] = 0.7
    """Temperature of the continuations; 0 always takes the likeliest token."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Share of the probability the continuations are drawn from, likeliest tokens first."""
    seed: Annotated[int, Field(ge=0)] = 12345
    """Seed of the bootstraps and of the continuations."""

    max_vs_unigram: Annotated[float, Field(gt=0)] | None = None
    """Refuse a model whose bits per byte, over the unigram's, are more than this; empty for no gate."""
    max_vs_kneser_ney: Annotated[float, Field(gt=0)] | None = None
    """Refuse a model whose bits per byte, over the Kneser-Ney 5-gram's, are more than this; empty for no gate."""

    device: Literal["auto", "cpu", "cuda"] = runtime("auto")
    """Where the model runs; auto takes a GPU when there is one."""
    threads: Annotated[int, Field(ge=0)] = runtime(0)
    """Threads of the model on a CPU; 0 for one per core this process may use."""
    batch_tokens: Annotated[int, Field(ge=1)] = runtime(4096)
    """Positions the model computes at once while scoring."""
