"""Text that is sent while it is made."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer

from tasks.lm.completion_text import TextStream, TokenBytes, prompt_tokens
from tests import tiny_release as release

TEXT = "The gate 打开闸门。 ¿naïve? 🌊 ok\n\n  done"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    one = Tokenizer.from_str(release.tokenizer().backend_tokenizer.to_str())
    one.encode_special_tokens = True
    return one


def pieces(tokenizer: Tokenizer, text: str, stops: tuple[str, ...] = ()) -> tuple[list[str], TextStream]:
    stream, found = TextStream(TokenBytes(tokenizer), stops), []
    for token in tokenizer.encode(text).ids:
        found.append(stream.push(token))
        if stream.stopped:
            return found, stream
    return [*found, stream.finish()], stream


def test_the_pieces_together_are_the_decoded_text(tokenizer: Tokenizer) -> None:
    found, _ = pieces(tokenizer, TEXT)
    assert "".join(found) == TEXT == tokenizer.decode(tokenizer.encode(TEXT).ids)


def test_no_piece_holds_half_a_character(tokenizer: Tokenizer) -> None:
    found, _ = pieces(tokenizer, "🌊闸")
    assert "\ufffd" not in "".join(found)
    assert "" in found  # the tokenizer never saw these characters: each is several tokens, and the first say nothing


def test_a_character_that_never_becomes_whole_is_left_out(tokenizer: Tokenizer) -> None:
    stream = TextStream(TokenBytes(tokenizer))
    first = tokenizer.encode("🌊").ids[:-1]
    assert "".join(map(stream.push, first)) + stream.finish() == ""


def test_bytes_that_are_no_text_become_what_the_tokenizer_makes_of_them(tokenizer: Tokenizer) -> None:
    wave, letter = tokenizer.encode("🌊").ids, tokenizer.encode("x").ids
    tokens = [*wave[:2], *letter, *wave[1:], *letter]
    stream = TextStream(TokenBytes(tokenizer))
    assert "".join(map(stream.push, tokens)) + stream.finish() == tokenizer.decode(tokens)


@pytest.mark.parametrize(
    ("stops", "expected"),
    [
        (("打开",), "The gate "),
        (("gate 打",), "The "),
        (("nothing",), TEXT),
        (("\n\n", "done"), "The gate 打开闸门。 ¿naïve? 🌊 ok"),
    ],
)
def test_text_ends_before_the_first_stop_string(tokenizer: Tokenizer, stops: tuple[str, ...], expected: str) -> None:
    found, stream = pieces(tokenizer, TEXT, stops)
    assert "".join(found) == expected
    assert stream.stopped == (expected != TEXT)


def test_the_beginning_of_a_stop_string_is_held_back_until_it_is_none(tokenizer: Tokenizer) -> None:
    stream = TextStream(TokenBytes(tokenizer), ["xyz"])
    one, two, other = (tokenizer.encode(letter).ids[0] for letter in "xyq")
    assert [stream.push(one), stream.push(two), stream.push(other)] == ["", "", "xyq"]


def test_what_was_held_back_comes_at_the_end(tokenizer: Tokenizer) -> None:
    found, _ = pieces(tokenizer, "ab x", stops=("xyz",))
    assert found[-1] == "x"


def test_the_text_of_a_special_token_is_read_as_text(tokenizer: Tokenizer) -> None:
    tokens = prompt_tokens(tokenizer, "<|endoftext|><|user|>", 0)
    assert tokens[0] == 0
    assert not {0, 1, 2, 3} & set(tokens[1:])


def test_a_special_token_writes_nothing(tokenizer: Tokenizer) -> None:
    stream = TextStream(TokenBytes(tokenizer))
    assert [stream.push(token) for token in (0, 1, 2, 3)] == [""] * 4


def test_an_empty_prompt_is_the_start_of_a_document(tokenizer: Tokenizer) -> None:
    assert prompt_tokens(tokenizer, "", 0) == [0]
