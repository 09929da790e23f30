"""The fast encoder gives the ids of the tokenizers library, or says why it does not try."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import tiktoken
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from upath import UPath

from tasks.core.errors import HeadraceError
from tasks.lm import fast_encoding
from tasks.lm.encoding import SPECIAL_TOKENS, decode_text, encode_text, encode_text_batch, load_tokenizer
from tasks.lm.fast_encoding import BYTES, PATTERNS, Encoder, reason_against
from tasks.tokenizer.bpe import train_bpe
from tests.lm.test_encoding import TEXTS

SAMPLES = Path(__file__).parents[2] / "samples"
ENDINGS = {".md", ".jsonl", ".py", ".html", ".txt", ".json"}


def pieces_of(files, num_chars=4000):
    return [text[:num_chars] for file in files if (text := file.read_text("utf-8", errors="ignore"))]


@pytest.fixture(scope="module")
def shipped():
    """Texts of the shipped sample: English, Chinese, markup and code."""
    files = sorted(file for file in SAMPLES.rglob("*") if file.suffix in ENDINGS and file.stat().st_size)
    texts = pieces_of([*files[:: max(1, len(files) // 150)], *(Path(__file__).parents[2] / "tasks").rglob("*.py")])
    assert len(texts) > 100
    assert any("的" in text for text in texts)
    return texts


def ready(tokenizer):
    tokenizer.encode_special_tokens = True
    return tokenizer


@pytest.fixture(scope="module")
def digits(shipped):
    """Our own kind of tokenizer, with a vocabulary that the sample gave."""
    return ready(train_bpe(shipped, 3000, 2))


@pytest.fixture(scope="module")
def gpt2(shipped):
    """A tokenizer that cuts text as GPT-2 does, numbers in one piece."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    marks = list(SPECIAL_TOKENS)
    trainer = trainers.BpeTrainer(vocab_size=3000, special_tokens=marks, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(shipped, trainer)
    return ready(tokenizer)


@pytest.fixture(params=["digits", "gpt2"])
def tokenizer(request):
    return request.getfixturevalue(request.param)


def assert_same(tokenizer, texts):
    encoder = Encoder(tokenizer)
    assert encoder.why_slow == ""
    for text, found, expected in zip(
        texts, encoder.encode_batch(texts), encode_text_batch(tokenizer, texts), strict=True
    ):
        assert found.tolist() == expected.tolist(), text


def test_ids_are_those_of_the_tokenizer_on_the_shipped_sample(tokenizer, shipped):
    assert_same(tokenizer, shipped)


def test_ids_are_those_of_the_tokenizer_on_odd_texts(tokenizer):
    assert_same(tokenizer, [*TEXTS, "I'm you're we'LL 'tis it's5 5's '  's", "def f(x):\n\treturn x  # 1_000\n\n\n"])


def test_ids_are_those_of_the_tokenizer_on_random_mixtures(tokenizer):
    """Every way in which letters, digits, spaces and marks can meet."""
    draw = random.Random(0)
    alphabet = [
        *"ab'stmrevldABé中文1239٣Ⅷ½²   \t\n\r\u00a0\u3000\u2028!?.,<|>_-🙂👩‍👧\u0301\u200b\x00\x1c\x85",
        *SPECIAL_TOKENS,
    ]
    assert_same(tokenizer, ["".join(draw.choices(alphabet, k=draw.randint(1, 25))) for _ in range(6000)])


def test_ids_are_those_of_the_tokenizer_on_random_unicode(tokenizer):
    draw = random.Random(1)
    codes = [*range(0xD800), *range(0xE000, 0x110000)]
    assert_same(tokenizer, ["".join(map(chr, draw.choices(codes, k=60))) for _ in range(2000)])


def test_special_token_text_in_a_document_is_text(tokenizer):
    texts = [f"a {mark}{mark} b{mark}" for mark in SPECIAL_TOKENS]
    for text, ids in zip(texts, Encoder(tokenizer).encode_batch(texts), strict=True):
        assert (ids >= len(SPECIAL_TOKENS)).all()
        assert decode_text(tokenizer, ids.astype(np.int64)) == text


@pytest.mark.parametrize("text", [" ", "\n", "a b", "x\u3000"])
def test_a_text_of_one_huge_run_is_encoded(digits, text):
    long = text[:-1] + text[-1] * 1_200_000 + "y"
    np.testing.assert_array_equal(Encoder(digits).encode_batch([long])[0], encode_text(digits, long))


def test_the_mark_between_documents_inside_one_is_text(tokenizer):
    assert_same(tokenizer, ["a", fast_encoding.MARK, "b", f"c{fast_encoding.MARK}d", "", "e"])
    assert_same(tokenizer, [part for at in range(1, len(fast_encoding.MARK)) for part in cut_at(at)])


def cut_at(place):
    return "f" + fast_encoding.MARK[:place], fast_encoding.MARK[place:] + "g"


def probe_of(pattern):
    """An engine that shows how a pattern cuts: beside a letter, a mark or a space, bytes of one piece merge."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    for beside in b"a! ":
        for byte in range(256):
            for pair in (bytes([beside, byte]), bytes([byte, beside])):
                ranks.setdefault(pair, len(ranks))
    return tiktoken.Encoding("probe", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


@pytest.mark.parametrize("which", [0, 1])
def test_both_cut_beside_every_code_point_alike_but_for_those_that_are_named(digits, gpt2, which):
    """In the company of letters, marks and spaces: every code point where scripts and signs are many, and one in 61 of
    the rest (ideographs, syllables, private and unassigned planes)."""
    cut, probe = (gpt2, digits)[which].pre_tokenizer, probe_of(PATTERNS[which][1])
    dense = [range(0x3400), range(0xA000, 0xAC00), range(0xD7A4, 0xD800), range(0xF900, 0x20000)]
    codes = sorted({*range(0, 0xD800, 61), *range(0xE000, 0x110000, 61)}.union(*dense))
    unlike = []
    for at in range(0, len(codes), 512):
        unlike += differing(cut, probe, [chr(code) for code in codes[at : at + 512]])
    assert [one for one in unlike if not fast_encoding.is_unlike(one)] == []


def differing(cut, probe, characters):
    """Those of the characters around which the two cut differently; all together first, which is fast."""
    text = "".join(f"a{one}a!{one}!a {one}a  {one}!" for one in characters)
    pieces = [bytes(BYTES[byte] for byte in piece) for piece, _ in cut.pre_tokenize_str(text)]
    apart = [number for piece in pieces for number in probe._encode_single_piece(piece)]
    if apart == probe.encode_ordinary(text):
        return []
    half = len(characters) // 2
    return (
        characters if not half else differing(cut, probe, characters[:half]) + differing(cut, probe, characters[half:])
    )


def changed(tokenizer, change):
    spec = json.loads(tokenizer.to_str())
    change(spec)
    return ready(Tokenizer.from_str(json.dumps(spec)))


def swap_ids(spec):
    vocabulary = spec["model"]["vocab"]
    first, second = spec["model"]["merges"][:2]
    one, other = "".join(first), "".join(second)
    vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (swap_ids, "its ids do not rise with its merges"),
        (lambda spec: spec["model"].update(dropout=0.1), "its model sets dropout"),
        (lambda spec: spec["model"]["merges"].pop(), "its ids do not rise"),
        (lambda spec: spec["pre_tokenizer"]["pretokenizers"].pop(0), ""),
        (lambda spec: spec["pre_tokenizer"]["pretokenizers"][0].update(individual_digits=False), "a way of its own"),
        (lambda spec: spec["pre_tokenizer"]["pretokenizers"][1].update(add_prefix_space=True), "a way of its own"),
        (lambda spec: spec.update(pre_tokenizer=None), "a way of its own"),
    ],
)
def test_a_tokenizer_that_tiktoken_does_not_equal_is_known(digits, change, reason):
    found = reason_against(changed(digits, change))
    assert reason in found
    assert bool(reason) == bool(found)


def test_a_tokenizer_that_changes_texts_or_adds_tokens_is_known(digits):
    normal, added = (Tokenizer.from_str(digits.to_str()) for _ in range(2))
    normal.normalizer = normalizers.NFC()
    added.add_tokens([AddedToken("water")])
    assert reason_against(normal) == "it changes texts or cuts them off"
    assert reason_against(added) == "it has added tokens that are not special"


def test_another_kind_of_tokenizer_is_encoded_by_itself():
    tokenizer = ready(Tokenizer(models.WordLevel({"[UNK]": 0, "river": 1, "mill": 2}, unk_token="[UNK]")))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    encoder = Encoder(tokenizer)
    assert encoder.why_slow == "it is a WordLevel tokenizer, not byte-pair encoding"
    assert encoder.encode_batch(["mill river sea"])[0].tolist() == [2, 1, 0]


@pytest.mark.parametrize("at", [0, 15, 256, 512])
def test_a_document_of_the_sample_with_other_ids_stops_everything(digits, monkeypatch, at):
    encoder = Encoder(digits)
    texts = ["the river turns"] * 600
    texts[at] = "the mill 河 1234567890 1234567890"
    right = encoder._encode
    monkeypatch.setattr(encoder, "_encode", lambda group: [ids[:-1] if len(ids) > 12 else ids for ids in right(group)])
    with pytest.raises(HeadraceError, match=r"encode a document differently: from token \d+ on") as caught:
        encoder.encode_batch(texts)
    assert "mill" in caught.value.subject
    assert "shards.fast_encoding" in caught.value.next_step


def test_a_tokenizer_of_ours_is_encoded_fast_as_it_is_stored(tmp_path, digits):
    (tmp_path / "tokenizer.json").write_text(digits.to_str(pretty=True), encoding="utf-8")
    assert Encoder(load_tokenizer(UPath(tmp_path))).why_slow == ""
    assert Encoder(digits, fast=False).why_slow == "it was asked to"
