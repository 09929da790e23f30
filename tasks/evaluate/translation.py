"""Translate held-out English into Chinese and score it beside two floors that need no model.

The floors answer the same pairs: *copy source* gives the English back, *nearest pair* gives the Chinese of the
training pair whose English is most similar (a translation memory).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tokenizers import Tokenizer
from upath import UPath

from tasks.core import events
from tasks.evaluate.bleu import corpus_bleu
from tasks.evaluate.config import EvaluateConfig
from tasks.evaluate.pairs import Pair, Selection, select_pairs
from tasks.lm.encoding import encode_text_batch
from tasks.lm.generation import Decoding, generate, ids_with

NUM_EXAMPLES = 3


def prompt_of(pair: Pair) -> str:
    """What the model is asked; no space at the end, which would derail byte-level BPE."""
    return f"English: {pair.en}\nChinese:"


def evaluate_translation(
    config: EvaluateConfig,
    network: Any,
    tokenizer: Tokenizer,
    held_out: Sequence[Pair],
    train: Sequence[Pair],
    *,
    eos_id: int,
    max_length: int,
    out: UPath,
) -> tuple[dict[str, Any] | None, str]:
    """BLEU of the model and of both floors as JSON values, or None and the reason why there is none.

    Every question with all answers is written to ``report/translations.jsonl``.
    """

    def fits(pair: Pair) -> bool:
        ids = encode_text_batch(tokenizer, [f"{prompt_of(pair)} {pair.zh}"])[0]
        return len(ids) + 2 <= max_length

    if config.num_pairs == 0:
        return None, "evaluate.num_pairs is 0"
    if not held_out:
        return None, f"the {config.split} split holds no English-Chinese pair"
    selection = select_pairs(
        held_out,
        train,
        num_pairs=config.num_pairs,
        min_words=config.min_words,
        near_copy=config.near_copy,
        fits=fits,
    )
    if not selection.chosen:
        return None, f"none of {len(held_out)} held-out pairs is fair to ask: {_left_out(selection)}"
    answers = translate(config, network, tokenizer, selection.chosen, eos_id=eos_id, max_length=max_length)
    hypotheses = _hypotheses(selection, answers)
    _write(selection.chosen, hypotheses, out)
    return _scored(config, selection, hypotheses), ""


def translate(
    config: EvaluateConfig, network: Any, tokenizer: Tokenizer, pairs: Sequence[Pair], *, eos_id: int, max_length: int
) -> list[str]:
    """The model's greedy translation of each pair's English, up to the first newline."""
    prompts = [[eos_id, *ids] for ids in encode_text_batch(tokenizer, [prompt_of(pair) for pair in pairs])]
    decoding = Decoding(max_new_tokens=config.max_new_tokens, repetition_penalty=config.repetition_penalty)
    stop_ids = ids_with(tokenizer, "\n") | {eos_id}
    answers = generate(network, prompts, decoding, stop_ids=stop_ids, max_length=max_length)
    return [tokenizer.decode(ids, skip_special_tokens=True).split("\n")[0].strip() for ids in answers]


def _hypotheses(selection: Selection, answers: list[str]) -> dict[str, list[str]]:
    hypotheses = {"model": answers, "copy_source": [pair.en for pair in selection.chosen]}
    if selection.nearest:
        hypotheses["nearest_pair"] = [pair.zh for pair in selection.nearest]
    return hypotheses


def _scored(config: EvaluateConfig, selection: Selection, hypotheses: dict[str, list[str]]) -> dict[str, Any]:
    references = [pair.zh for pair in selection.chosen]
    scores, signature = {}, ""
    for name, one in hypotheses.items():
        scores[name], signature = corpus_bleu(one, references, num_bootstrap=config.num_bootstrap, seed=config.seed)
    nearest = scores.get("nearest_pair")
    return {
        "num_pairs": len(references),
        **{name: asdict(score) for name, score in scores.items()},
        "beats_copy_source": scores["model"].above(scores["copy_source"]),
        "beats_nearest_pair": None if nearest is None else scores["model"].above(nearest),
        "signature": signature,
        "left_out": {
            "too_few_words": selection.num_short,
            "near_copy_of_training_pair": selection.num_near_copies,
            "longer_than_context": selection.num_too_long,
        },
    }


def _write(pairs: Sequence[Pair], hypotheses: dict[str, list[str]], out: UPath) -> None:
    folder = out / "report"
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, pair in enumerate(pairs):
        row = {"id": pair.id, "en": pair.en, "reference": pair.zh}
        row |= {name: answers[number] for name, answers in hypotheses.items()}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
        if number < NUM_EXAMPLES:
            events.sample("translation", f"{pair.en} → {row['model']} (reference: {pair.zh})")
    (folder / "translations.jsonl").write_text("".join(lines), encoding="utf-8")


def _left_out(selection: Selection) -> str:
    return (
        f"{selection.num_short} have too few words, {selection.num_near_copies} are near-copies of training pairs, "
        f"{selection.num_too_long} are longer than the model's context"
    )
