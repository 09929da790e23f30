"""Encode text with tiktoken's engine where that gives the very ids of the tokenizers library, several times faster.

Both are byte-pair encoding (Sennrich et al., 2016). tokenizers applies its list of merges in their order; tiktoken
merges whichever neighbours make the token with the lowest id, and takes a whole piece that is a token at once. That is
the same when ids rise with the merges, no two merges make the same token, and each token is what its own text encodes
to. All three are checked, and how text is cut into pieces is known for two ways only. Any other tokenizer is encoded by
tokenizers itself. While documents are encoded, a sample of them is encoded both ways and compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import tiktoken
from tokenizers import Tokenizer

from tasks.core.errors import HeadraceError
from tasks.lm.encoding import encode_text_batch

Ids = npt.NDArray[np.integer[Any]]

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
_DIGITS = {"type": "Digits", "individual_digits": True}

_WORDS = r" ?\p{L}+|'(?:[stmd]|re|ve|ll)| ?[^\s\p{L}\p{N}]+"
PATTERNS: list[tuple[list[dict[str, Any]], str]] = [
    # The expression of GPT-2 (Radford et al., 2019), which takes all but the last of several spaces before a word.
    ([_BYTE_LEVEL], rf"(?:{_WORDS}| ?\p{{N}}+)|\s+(?!\S)|\s+"),
    # Digits come first here and cut the text, so that for the expression it ends before a digit: spaces there are
    # taken whole, and none goes with the digit.
    ([_DIGITS, _BYTE_LEVEL], rf"(?:{_WORDS}|\p{{N}})|\s+(?![^\s\p{{N}}])|\s+"),
]
"""How a tokenizer cuts text into pieces, and tiktoken's expression for the same. What needs no look ahead is one
group: the engine then searches for all of it at once, half as fast again as one after the other."""

UNLIKE = "[\U00011de0-\U00011de9\U00016ff4-\U00016ff6]"
"""Numbers that came with the newest Unicode, which only one of the two libraries takes for numbers
(tokenizers 0.22, tiktoken 0.14). All 1,112,064 code points were compared; a test compares where scripts and signs are,
and samples the rest."""
MAX_SPACES = 500_000
"""tiktoken 0.14 fails with a stack overflow on a run of a million spaces or so."""
MARK = "\x00<end of a document>"
"""Parts documents that are encoded together; the engine's only special token, with an id above all others. It does not
end as it begins, so an unfinished one before it does not make another."""
NUM_CHECKED_FIRST, CHECKED_EACH = 16, 256
"""How many documents are encoded both ways: the first ones, and then one in so many."""


class Encoder:
    """Encodes documents as :func:`tasks.lm.encoding.encode_text_batch` does, and proves it on a sample of them.

    Ids do not depend on ``fast``.
    """

    def __init__(self, tokenizer: Tokenizer, *, fast: bool = True) -> None:
        self.tokenizer = tokenizer
        self.why_slow = reason_against(tokenizer) if fast else "it was asked to"
        """Why the tokenizers library encodes; empty when tiktoken does."""
        self._engine = None if self.why_slow else engine_of(tokenizer)
        self._num_seen = 0

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Token ids of each text, without any special id, as unsigned integers of the engine's width.

        Raises:
            HeadraceError: when a text of the sample has other ids with tokenizers.
        """
        if self._engine is None:
            return list(encode_text_batch(self.tokenizer, texts))
        found = self._encode(texts)
        self._check(texts, found)
        self._num_seen += len(texts)
        return found

    def _encode(self, texts: Sequence[str]) -> list[Ids]:
        """All texts in one call, a mark after each: a call costs as much as a short document."""
        assert self._engine is not None
        alone = {at: encode_text_batch(self.tokenizer, [text])[0] for at, text in enumerate(texts) if is_unlike(text)}
        joined = "".join(MARK if at in alone else text + MARK for at, text in enumerate(texts))
        ids = self._engine.encode_to_numpy(joined, allowed_special={MARK}, disallowed_special=())
        ends = np.flatnonzero(ids == self._engine.max_token_value).tolist()
        spans = zip([0, *(end + 1 for end in ends)], ends, strict=False)
        return [alone[at] if at in alone else ids[span[0] : span[1]] for at, span in enumerate(spans)]

    def _check(self, texts: Sequence[str], found: Sequence[Ids]) -> None:
        numbers = range(self._num_seen, self._num_seen + len(texts))
        at = [i for i, number in enumerate(numbers) if number < NUM_CHECKED_FIRST or number % CHECKED_EACH == 0]
        for i, expected in zip(at, encode_text_batch(self.tokenizer, [texts[i] for i in at]), strict=True):
            if not np.array_equal(found[i], expected):
                raise HeadraceError(
                    f"tiktoken and tokenizers encode a document differently: {_difference(found[i], expected)}",
                    subject=f"the document that begins {texts[i][:60]!r}",
                    next_step="set shards.fast_encoding to false, which encodes with tokenizers",
                )


def _difference(found: Ids, expected: Ids) -> str:
    common = min(len(found), len(expected))
    unlike = np.flatnonzero(found[:common] != expected[:common])
    at = int(unlike[0]) if len(unlike) else common
    return f"from token {at} on {found[at : at + 5].tolist()} in place of {expected[at : at + 5].tolist()}"


_unlike = re.compile(UNLIKE)
_spaces = re.compile(r"\s+")


def is_unlike(text: str) -> bool:
    """Whether tiktoken might cut a text in another way than tokenizers, fail on it, or take it for two."""
    if len(text) > MAX_SPACES and any(run.end() - run.start() > MAX_SPACES for run in _spaces.finditer(text)):
        return True
    if MARK in text:
        return True
    return not text.isascii() and _unlike.search(text) is not None


def reason_against(tokenizer: Tokenizer) -> str:
    """Why tiktoken would not give the same ids; empty when it does."""
    spec = json.loads(tokenizer.to_str())
    model, found = spec["model"], set(spec["model"])
    if model["type"] != "BPE" or not found >= {"vocab", "merges"}:
        return f"it is a {model['type']} tokenizer, not byte-pair encoding"
    if set_up := [name for name in _NEUTRAL if model.get(name) not in _NEUTRAL[name]]:
        return f"its model sets {', '.join(set_up)}"
    if pattern_of(spec) is None:
        return "it cuts text into pieces in a way of its own"
    if spec["normalizer"] or spec["truncation"] or spec["padding"]:
        return "it changes texts or cuts them off"
    if any(not token["special"] for token in spec["added_tokens"]):
        return "it has added tokens that are not special"
    return _reason_against_vocabulary(tokenizer, spec)


_NEUTRAL = {
    "dropout": (None, 0.0),
    "unk_token": (None,),
    "continuing_subword_prefix": (None, ""),
    "end_of_word_suffix": (None, ""),
    "byte_fallback": (None, False),
    "ignore_merges": (None, False),
}
"""Settings of the model that tiktoken does not have, at the values that do nothing."""


def pattern_of(spec: dict[str, Any]) -> str | None:
    """tiktoken's expression for how a ``tokenizer.json`` cuts text into pieces, or None."""
    first = spec["pre_tokenizer"] or {}
    steps = first["pretokenizers"] if first.get("type") == "Sequence" else [first]
    # How offsets are trimmed has no bearing on ids.
    steps = [{name: value for name, value in step.items() if name != "trim_offsets"} for step in steps]
    return next((pattern for known, pattern in PATTERNS if steps == known), None)


def _reason_against_vocabulary(tokenizer: Tokenizer, spec: dict[str, Any]) -> str:
    vocabulary, special = spec["model"]["vocab"], {token["content"] for token in spec["added_tokens"]}
    ordinary = vocabulary.keys() - special
    if any(byte not in ordinary for byte in BYTES) or not all(BYTES.keys() >= set(token) for token in ordinary):
        return "its vocabulary is not made of all bytes"
    merged = [vocabulary["".join(merge)] for merge in spec["model"]["merges"]]
    if any(first >= second for first, second in pairwise(merged)) or len(merged) + len(BYTES) != len(ordinary):
        return "its ids do not rise with its merges"
    if any([one.id for one in tokenizer.model.tokenize(token)] != [vocabulary[token]] for token in ordinary):
        return "it has tokens that their own text does not become"
    return ""


def engine_of(tokenizer: Tokenizer) -> tiktoken.Encoding:
    """tiktoken's engine with a tokenizer's vocabulary but for its special tokens, whose text is text here.

    Only sensible when there is no :func:`reason_against` it.
    """
    spec = json.loads(tokenizer.to_str())
    special = {token["content"] for token in spec["added_tokens"]}
    mark = {MARK: max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1}
    ranks = {
        bytes(BYTES[character] for character in token): number
        for token, number in spec["model"]["vocab"].items()
        if token not in special
    }
    pattern = pattern_of(spec)
    assert pattern is not None
    return tiktoken.Encoding("headrace", pat_str=pattern, mergeable_ranks=ranks, special_tokens=mark)


def _byte_alphabet() -> dict[str, int]:
    """The printable character that stands for each byte in a byte-level vocabulary.

    Latin-1 characters that can be seen stand for themselves; the others, in order, are moved up by 256 (GPT-2).
    """
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    unseen = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {chr(256 + at): byte for at, byte in enumerate(unseen)}


BYTES = _byte_alphabet()
"""The byte that each character of a byte-level token stands for."""
