import random

import numpy as np
import pytest
from upath import UPath

from tasks.core.errors import DataError
from tasks.lm.encoding import SPECIAL_TOKENS, decode_text, encode_text, encode_text_batch, load_tokenizer
from tests.shards.corpora import bytes_tokenizer

TEXTS = [
    "",
    " ",
    "plain English, with punctuation .  And  spaces",
    "čćđžš Ö ß İ ı Σίσυφος",
    "床前明月光,疑是地上霜。",
    "emoji 🙂 👩‍👩‍👧‍👦 🇨🇳",
    "control \x00\x01\x7f\x1b[0m \r\n\t\u2028\ufeff\u200b",
    "numbers 1234567890 3.14 ٣ Ⅷ",
    "combining e\u0301 a\u0308 한\u1100",
    "\U00020000 𠀀 \U0010ffff \uffff",
    *SPECIAL_TOKENS,
    "before <|endoftext|> after <|user|><|assistant|> <|end|>",
    "<|endoftext|><|endoftext|>",
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return load_tokenizer(bytes_tokenizer(UPath(tmp_path_factory.mktemp("tokenizer"))))


@pytest.mark.parametrize("text", TEXTS)
def test_decoding_gives_back_what_was_encoded(tokenizer, text):
    assert decode_text(tokenizer, encode_text(tokenizer, text)) == text


def test_decoding_gives_back_random_unicode(tokenizer):
    draw = random.Random(0)
    codes = [*range(0xD800), *range(0xE000, 0x110000)]
    texts = ["".join(map(chr, draw.choices(codes, k=40))) for _ in range(300)]
    assert [decode_text(tokenizer, ids) for ids in encode_text_batch(tokenizer, texts)] == texts


@pytest.mark.parametrize("text", TEXTS)
def test_no_text_becomes_a_special_id(tokenizer, text):
    assert (encode_text(tokenizer, text) >= len(SPECIAL_TOKENS)).all()


def test_the_special_tokens_have_the_first_ids(tokenizer):
    assert [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS] == [0, 1, 2, 3]


def test_a_batch_is_encoded_as_its_texts_alone(tokenizer):
    for text, ids in zip(TEXTS, encode_text_batch(tokenizer, TEXTS), strict=True):
        np.testing.assert_array_equal(ids, encode_text(tokenizer, text))


def test_digits_stand_alone(tokenizer):
    assert len(encode_text(tokenizer, "2026")) == 4


def test_a_folder_without_a_tokenizer_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"no tokenizer\.json"):
        load_tokenizer(tmp_path)


def test_a_tokenizer_without_our_special_tokens_is_an_error(tmp_path, tokenizer):
    text = tokenizer.to_str().replace("<|user|>", "<|human|>")
    (tmp_path / "tokenizer.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="special tokens"):
        load_tokenizer(tmp_path)
