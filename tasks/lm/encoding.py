"""Text to token ids and back, the one way that every stage uses.

Special tokens are control marks that only our own code may set. Their *text* in a document, or in what a user
types, is text: encoding here never yields a special id, whatever the text says.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer
from upath import UPath

from tasks.core.errors import DataError

TOKENIZER_FILE = "tokenizer.json"

END_OF_TEXT = "<|endoftext|>"
"""Closes every document; also begins, ends and pads. Always id 0."""
USER, ASSISTANT, END = "<|user|>", "<|assistant|>", "<|end|>"
SPECIAL_TOKENS = (END_OF_TEXT, USER, ASSISTANT, END)
"""In the order of their ids, from 0."""


def load_tokenizer(folder: UPath | Path) -> Tokenizer:
    """The tokenizer of an artifact, set to encode the text of special tokens as ordinary text.

    ``tokenizer.json`` cannot hold that setting, so a tokenizer loaded in another way does not have it.

    Raises:
        DataError: when there is none, or its special tokens are not ours.
    """
    path = folder / TOKENIZER_FILE
    if not path.is_file():
        raise DataError(f"{folder} has no {TOKENIZER_FILE}", subject=str(folder), next_step="make the tokenizer again")
    tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    found = [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS]
    if found != list(range(len(SPECIAL_TOKENS))):
        raise DataError(f"{path} gives the special tokens the ids {found}, not 0 to 3", subject=str(path))
    tokenizer.encode_special_tokens = True
    return tokenizer


def same_tokenizer(folder: UPath | Path, other: UPath | Path) -> bool:
    """Whether two folders hold the same ``tokenizer.json`` to the byte, so that an id means the same token in both.

    Raises:
        DataError: when one of them has none.
    """
    for one in (folder, other):
        if not (one / TOKENIZER_FILE).is_file():
            raise DataError(f"{one} has no {TOKENIZER_FILE}", subject=str(one), next_step="make the artifact again")
    return (folder / TOKENIZER_FILE).read_bytes() == (other / TOKENIZER_FILE).read_bytes()


def encode_text_batch(tokenizer: Tokenizer, texts: Sequence[str]) -> list[npt.NDArray[np.int64]]:
    """Token ids of each text, without any special id; on all threads of the tokenizers library.

    ``tokenizer`` comes from :func:`load_tokenizer`. ``decode_text`` gives the same texts back.
    """
    assert tokenizer.encode_special_tokens, "take the tokenizer from load_tokenizer"
    encoded = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [np.array(one.ids, np.int64) for one in encoded]


def encode_text(tokenizer: Tokenizer, text: str) -> npt.NDArray[np.int64]:
    """Token ids of one text; see :func:`encode_text_batch`."""
    return encode_text_batch(tokenizer, [text])[0]


def decode_text(tokenizer: Tokenizer, ids: Sequence[int] | npt.NDArray[np.int64]) -> str:
    """The text of token ids, special tokens written out. Cut-off characters become U+FFFD."""
    return str(tokenizer.decode([int(one) for one in ids], skip_special_tokens=False))
