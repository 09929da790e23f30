"""Text into the tokens of a prompt, and generated tokens back into text, piece by piece.

Copied as source into the served package, so it imports nothing of this project and nothing but ``tokenizers``.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from tokenizers import Tokenizer


def load_tokenizer(path: str) -> Tokenizer:
    """A tokenizer that reads the text of a special token as text, never as the special token."""
    tokenizer = Tokenizer.from_file(path)
    tokenizer.encode_special_tokens = True
    return tokenizer


def prompt_tokens(tokenizer: Tokenizer, text: str, start_id: int) -> list[int]:
    """Tokens of a prompt, read as the beginning of a document: ``start_id`` stands before it, as in training."""
    return [start_id, *tokenizer.encode(text, add_special_tokens=False).ids]


class TokenBytes:
    """The bytes each token of a byte-level BPE vocabulary stands for.

    Byte-level BPE writes a byte that is not printable as a letter from U+0100 on, in byte order (GPT-2, Radford et
    al. 2019). Special tokens stand for no bytes.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
        shifted = [byte for byte in range(256) if byte not in printable]
        self._byte_of = {chr(byte): byte for byte in printable}
        self._byte_of.update({chr(256 + place): byte for place, byte in enumerate(shifted)})
        self._special = {token for token, added in tokenizer.get_added_tokens_decoder().items() if added.special}
        self._tokenizer = tokenizer

    def __call__(self, token: int) -> bytes:
        if token in self._special:
            return b""
        text = self._tokenizer.id_to_token(token)
        return bytes(self._byte_of[letter] for letter in text) if text else b""


class TextStream:
    """Turns tokens into text that is safe to send at once.

    Held back until it is decided: the first bytes of a character whose rest has not come, and text that may be the
    beginning of a stop string. All pieces together are the decoded text up to the first stop string. Bytes that no
    continuation can make a character become U+FFFD, one per maximal part as Unicode recommends.
    """

    def __init__(self, bytes_of: TokenBytes, stops: Sequence[str] = ()) -> None:
        self._bytes_of, self._stops = bytes_of, [stop for stop in stops if stop]
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.stopped = False
        """Whether a stop string came; nothing is to be pushed after it."""

    def push(self, token: int) -> str:
        """The text that is safe to send after one more token; often empty."""
        return self._release(self._decoder.decode(self._bytes_of(token)))

    def finish(self) -> str:
        """The text that was held back when generation ended; a character whose rest never came is left out."""
        held, self._held = self._held, ""
        return held

    def _release(self, text: str) -> str:
        self._held += text
        starts = [at for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if starts:
            self.stopped = True
            text, self._held = self._held[: min(starts)], ""
            return text
        keep = max((_overlap(self._held, stop) for stop in self._stops), default=0)
        cut = len(self._held) - keep
        text, self._held = self._held[:cut], self._held[cut:]
        return text


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of ``text`` that begins ``stop``."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
