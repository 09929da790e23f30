"""Train the tokenizer, write it so that transformers loads it, and measure how well it packs each language."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer
from upath import UPath

from tasks.core import events
from tasks.lm.encoding import ASSISTANT, END, END_OF_TEXT, TOKENIZER_FILE, USER, encode_text_batch, load_tokenizer
from tasks.tokenizer.bpe import train_bpe
from tasks.tokenizer.config import TokenizerConfig
from tasks.tokenizer.sample import batches, choose

VERSION = 1


@dataclass(frozen=True)
class TokenizerResult:
    """What was made."""

    vocab_size: int
    """Tokens there really are, the special ones included."""
    num_train_documents: int
    """Documents of the training split."""
    num_sampled_documents: int
    """Those of them that the tokenizer was trained on."""
    num_chars: dict[str, int]
    """Characters trained on, by language."""
    bytes_per_token: dict[str, float]
    """UTF-8 bytes per token by language, on the text trained on; ``shards`` says it for the held-out text."""


def run(config: TokenizerConfig, documents: UPath, *, out: UPath) -> TokenizerResult:
    """Train on the training split and write ``tokenizer.json`` with its transformers configuration.

    Raises:
        DataError: when there are no training documents.
    """
    sample = choose(config, documents)
    num_chars = sum(sample.chars_of.values())
    events.note(f"training on {num_chars:,} characters of {len(sample.chars_of):,} documents")
    started = time.perf_counter()
    texts = (text for batch in batches(documents, sample) for _, text in batch)
    tokenizer = train_bpe(texts, config.vocab_size, config.min_frequency)
    events.metric("chars_per_s", num_chars / (time.perf_counter() - started))
    write(tokenizer, out)
    if tokenizer.get_vocab_size() < config.vocab_size:
        events.note(f"the text supports {tokenizer.get_vocab_size():,} tokens of the {config.vocab_size:,} asked for")
    packed = _packing(load_tokenizer(out), batches(documents, sample))
    return TokenizerResult(
        vocab_size=tokenizer.get_vocab_size(),
        num_train_documents=sample.num_documents,
        num_sampled_documents=len(sample.chars_of),
        num_chars={language: chars for language, (chars, _, _) in packed.items()},
        bytes_per_token={language: round(size / num, 4) for language, (_, size, num) in packed.items() if num},
    )


def _packing(tokenizer: Tokenizer, sampled: Iterator[list[tuple[str, str]]]) -> dict[str, tuple[int, int, int]]:
    """Characters, UTF-8 bytes and tokens by language."""
    chars, sizes, tokens = Counter[str](), Counter[str](), Counter[str]()
    for batch in sampled:
        encoded = encode_text_batch(tokenizer, [text for _, text in batch])
        for (language, text), ids in zip(batch, encoded, strict=True):
            chars[language] += len(text)
            sizes[language] += len(text.encode("utf-8"))
            tokens[language] += len(ids)
    return {language: (chars[language], sizes[language], tokens[language]) for language in sorted(chars)}


def write(tokenizer: Tokenizer, out: UPath) -> None:
    """Write the files that ``transformers.PreTrainedTokenizerFast.from_pretrained`` reads."""
    out.mkdir(parents=True, exist_ok=True)
    (out / TOKENIZER_FILE).write_text(tokenizer.to_str(pretty=True), encoding="utf-8")
    marks = {
        "bos_token": END_OF_TEXT,
        "eos_token": END_OF_TEXT,
        "pad_token": END_OF_TEXT,
        "additional_special_tokens": [USER, ASSISTANT, END],
    }
    _write_json(out / "special_tokens_map.json", marks)
    _write_json(
        out / "tokenizer_config.json",
        {
            **marks,
            "tokenizer_class": "PreTrainedTokenizerFast",
            # Without it transformers adds token_type_ids, which an exported model does not take.
            "model_input_names": ["input_ids", "attention_mask"],
            # Would rewrite " ." to "." when decoding, and decoding must give back what was encoded.
            "clean_up_tokenization_spaces": False,
        },
    )


def _write_json(path: UPath, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
