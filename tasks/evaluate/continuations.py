"""Texts the model writes when given a beginning, for people to read."""

from __future__ import annotations

import json
from typing import Any

from tokenizers import Tokenizer
from upath import UPath

from tasks.core import events
from tasks.core.errors import ConfigError
from tasks.evaluate.config import EvaluateConfig
from tasks.lm.encoding import encode_text_batch
from tasks.lm.generation import Decoding, generate

CUT = "\ufffd"
"""What decoding makes of a character whose last bytes the token limit cut off."""


def write_continuations(
    config: EvaluateConfig, network: Any, tokenizer: Tokenizer, *, eos_id: int, max_length: int, out: UPath
) -> list[dict[str, str]]:
    """Continue each of the configured prompts; also written to ``report/generations.jsonl``.

    Raises:
        ConfigError: naming every prompt that leaves the model no room to answer.
    """
    if not config.prompts:
        return []
    prompts = [[eos_id, *ids] for ids in encode_text_batch(tokenizer, list(config.prompts))]
    too_long = [
        f"evaluate.prompts.{number}: must be shorter than the model's context of {max_length} tokens (got {len(ids)})"
        for number, ids in enumerate(prompts)
        if len(ids) >= max_length
    ]
    if too_long:
        raise ConfigError("stage evaluate is not valid", too_long)
    decoding = Decoding(
        max_new_tokens=config.sample_tokens, temperature=config.temperature, top_p=config.top_p, seed=config.seed
    )
    answers = generate(network, prompts, decoding, stop_ids={eos_id}, max_length=max_length)
    texts = [tokenizer.decode(ids, skip_special_tokens=True).rstrip(CUT) for ids in answers]
    rows = [{"prompt": prompt, "text": text} for prompt, text in zip(config.prompts, texts, strict=True)]
    _write(rows, out)
    for row in rows:
        events.sample("continuation", row["prompt"] + row["text"])
    return rows


def _write(rows: list[dict[str, str]], out: UPath) -> None:
    folder = out / "report"
    folder.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / "generations.jsonl").write_text("".join(lines), encoding="utf-8")
