import hashlib
import json

import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast
from upath import UPath

from tasks.core.config import validated
from tasks.core.errors import ConfigError, DataError
from tasks.lm.encoding import decode_text, encode_text, load_tokenizer
from tasks.text.split import Split, split_of
from tasks.tokenizer.config import TokenizerConfig
from tasks.tokenizer.sample import batches, choose
from tasks.tokenizer.stage import VERSION, run
from tests.shards.corpora import mixed_rows, row, write_rows

SMALL = {"vocab_size": 300}


@pytest.fixture
def documents(tmp_path):
    return write_rows(UPath(tmp_path) / "in", mixed_rows(200))


@pytest.fixture
def out(tmp_path):
    return UPath(tmp_path) / "out"


def test_the_vocabulary_has_the_size_asked_for(documents, out):
    assert run(TokenizerConfig(**SMALL), documents, out=out).vocab_size == 300
    assert load_tokenizer(out).get_vocab_size() == 300


def test_a_vocabulary_larger_than_the_text_supports_reports_its_real_size(tmp_path, out):
    documents = write_rows(UPath(tmp_path) / "in", [row(at, "abab abab") for at in range(5)])
    result = run(TokenizerConfig(vocab_size=4096, split=Split(0, 0)), documents, out=out)
    assert 260 < result.vocab_size < 280
    assert load_tokenizer(out).get_vocab_size() == result.vocab_size


def test_a_vocabulary_smaller_than_the_bytes_is_refused():
    with pytest.raises(ConfigError, match=r"tokenizer\.vocab_size: must be greater than or equal to 260 \(got 259\)"):
        validated(TokenizerConfig, {"vocab_size": 259}, stage="tokenizer")


def test_the_smallest_vocabulary_is_the_bytes_and_the_special_tokens(documents, out):
    assert run(TokenizerConfig(vocab_size=260), documents, out=out).vocab_size == 260


def test_the_same_documents_make_the_same_bytes(documents, tmp_path):
    made = []
    for name in ("first", "second"):
        run(TokenizerConfig(**SMALL), documents, out=UPath(tmp_path) / name)
        made.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert made[0] == made[1]


def test_held_out_documents_are_never_seen(tmp_path, out):
    split, rows = Split(0.3, 0.3), mixed_rows(100)
    held_out = [one for one in rows if split_of(one["cluster"], split) != "train"]
    for one in held_out:
        one["text"] = "zyzzyva " * 50
    documents = write_rows(UPath(tmp_path) / "in", rows)
    result = run(TokenizerConfig(vocab_size=400, split=split), documents, out=out)
    assert result.num_train_documents == 100 - len(held_out) < 70
    assert not [token for token in load_tokenizer(out).get_vocab() if "zy" in token]


def test_each_language_gets_the_same_number_of_characters(documents):
    config = TokenizerConfig(max_chars=500)
    taken = {"en": 0, "zh": 0}
    for batch in batches(documents, choose(config, documents)):
        for language, text in batch:
            taken[language] += len(text)
    assert taken == {"en": 500, "zh": 500}


def test_another_seed_takes_other_documents(documents):
    chosen = [set(choose(TokenizerConfig(max_chars=500, seed=seed), documents).chars_of) for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]


def test_bytes_per_token_are_those_of_a_second_count(documents, out):
    config = TokenizerConfig(**SMALL, split=Split(0, 0))
    result = run(config, documents, out=out)
    tokenizer = load_tokenizer(out)
    rows = [one for one in mixed_rows(200) if one["language"] == "zh"]
    num_tokens = sum(len(tokenizer.encode(one["text"]).ids) for one in rows)
    assert result.bytes_per_token["zh"] == pytest.approx(
        sum(len(one["text"]) * 3 for one in rows) / num_tokens, abs=1e-4
    )
    assert result.num_chars["zh"] == sum(len(one["text"]) for one in rows)


def test_transformers_loads_it_and_encodes_the_same(documents, out):
    run(TokenizerConfig(**SMALL), documents, out=out)
    theirs = PreTrainedTokenizerFast.from_pretrained(str(out))
    text = "The river . Turns 12 wheels, 河水 推动 🙂"
    encoded = theirs(text)
    assert set(encoded) == {"input_ids", "attention_mask"}
    assert encoded["input_ids"] == encode_text(load_tokenizer(out), text).tolist()
    assert theirs.decode(encoded["input_ids"]) == text
    assert (theirs.bos_token_id, theirs.eos_token_id, theirs.pad_token_id) == (0, 0, 0)
    assert theirs.convert_tokens_to_ids(["<|user|>", "<|assistant|>", "<|end|>"]) == [1, 2, 3]


def test_special_token_text_in_the_training_documents_stays_text(tmp_path, out):
    text = "a document that says <|endoftext|> and <|user|> in its text"
    documents = write_rows(UPath(tmp_path) / "in", [row(at, text) for at in range(30)])
    run(TokenizerConfig(vocab_size=400, split=Split(0, 0)), documents, out=out)
    tokenizer = load_tokenizer(out)
    ids = encode_text(tokenizer, text)
    assert ids.min() > 3
    assert decode_text(tokenizer, ids) == text
    marks = json.loads((out / "special_tokens_map.json").read_text(encoding="utf-8"))
    assert marks["eos_token"] == "<|endoftext|>"
    naive = Tokenizer.from_file(str(out / "tokenizer.json"))
    assert 0 in naive.encode(text).ids, "the library's own default is what load_tokenizer protects from"


def test_empty_documents_do_no_harm(tmp_path, out):
    rows = [row(0, ""), row(1, ""), *(row(at, "the river " * 5) for at in range(2, 20))]
    result = run(TokenizerConfig(split=Split(0, 0)), write_rows(UPath(tmp_path) / "in", rows), out=out)
    assert result.num_train_documents == 20


def test_no_training_documents_is_an_error(tmp_path, out):
    documents = write_rows(UPath(tmp_path) / "in", [])
    with pytest.raises(DataError, match="no training documents"):
        run(TokenizerConfig(), documents, out=out)


def test_what_the_stage_makes_changes_only_with_its_version(documents, out):
    run(TokenizerConfig(**SMALL), documents, out=out)
    model = json.loads((out / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    digest = hashlib.sha256(json.dumps([model["vocab"], model["merges"]], sort_keys=True).encode()).hexdigest()
    assert (VERSION, digest[:16]) == (1, "9fb0c2f29d7bc959")
