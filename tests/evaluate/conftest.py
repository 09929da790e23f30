"""A tiny model, its tokens and its documents, as the stages before would have left them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM
from upath import UPath

from tasks.core.documents import document_id, table_of, text_digest, write_documents
from tasks.lm.encoding import SPECIAL_TOKENS, encode_text_batch, load_tokenizer
from tests.shards.stored import store_tokens

CONTEXT = 128
ENGLISH = ["Open the file menu", "Close every window now", "Print the current page", "Save all changes first"]
CHINESE = ["打开文件菜单", "立即关闭所有窗口", "打印当前页面", "先保存所有更改"]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Threads only cost on a model this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def rows_of_prose(number):
    for one in range(number):
        yield "prose", "en", f"Line {one}: the cat sat on mat number {one * 7} and slept.", {}
        yield "poems", "zh", f"第{one}首：白日依山盡，黃河入海流。", {}


def rows_of_pairs():
    """Twelve pairs; the verbs and nouns are combined so that no two share most of their words."""
    nouns = ["alpha beta gamma", "delta epsilon zeta", "eta theta iota"]
    hanzi = ["甲乙丙丁", "戊己庚辛", "子丑寅卯"]
    for place, (noun, zi) in enumerate(zip(nouns, hanzi, strict=True)):
        for en, zh in zip(ENGLISH, CHINESE, strict=True):
            en, zh = f"{en} {noun} {place}", f"{zh}{zi}"
            yield "pairs", "en", f"English: {en}\nChinese: {zh}", {"en": en, "zh": zh}


def documents_of(rows):
    for place, (source, language, text, meta) in enumerate(rows):
        digest = text_digest(text)
        yield {
            "id": document_id(source, str(place), digest),
            "text": text,
            "text_digest": digest,
            "source": source,
            "meta": json.dumps(meta, ensure_ascii=False),
            "language": language,
        }


def split_documents():
    """Every fourth document is held out."""
    rows = [*rows_of_prose(8), *rows_of_pairs()]
    found = sorted(documents_of(rows), key=lambda row: row["id"])
    return {"train": [r for n, r in enumerate(found) if n % 4], "test": [r for n, r in enumerate(found) if n % 4 == 0]}


def write_tokenizer(folder):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([row["text"] for rows in split_documents().values() for row in rows], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))


def write_model(folder, **changes):
    torch.manual_seed(1)
    values = {
        "vocab_size": 330,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": CONTEXT,
        "tie_word_embeddings": True,
        "pad_token_id": 0,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    network = LlamaForCausalLM(LlamaConfig(**(values | changes)))
    network.save_pretrained(folder)
    return network


def write_shards(folder, tokenizer, splits):
    tokens = {
        split: [np.append(ids, 0) for ids in encode_text_batch(tokenizer, [row["text"] for row in rows])]
        for split, rows in splits.items()
    }
    columns = {
        split: {name: pa.array([row[name] for row in rows], pa.string()) for name in ("id", "source", "language")}
        | {"num_bytes": pa.array([len(row["text"].encode()) for row in rows], pa.int64())}
        for split, rows in splits.items()
    }
    store_tokens(folder, tokens, vocab_size=tokenizer.get_vocab_size(), rows=columns)


class Artifacts:
    """The three inputs of the stage, and the rows of each split."""

    def __init__(self, folder, splits):
        self.splits = splits
        self.model, self.shards, self.documents = (UPath(folder / one) for one in ("model", "shards", "documents"))
        for one in (self.model, self.shards, self.documents):
            one.mkdir(parents=True)
        write_tokenizer(folder / "model")
        write_model(folder / "model")
        self.tokenizer = load_tokenizer(folder / "model")
        write_shards(folder / "shards", self.tokenizer, splits)
        schema = pa.schema([(name, pa.string()) for name in next(iter(splits["test"]))])
        write_documents(self.documents, table_of([r for rows in splits.values() for r in rows], schema), 2)

    def write_shards(self, folder, **splits):
        """Other shards, of the same documents but for the splits given."""
        write_shards(folder, self.tokenizer, self.splits | splits)
        return UPath(folder)

    def write_model(self, **changes):
        """A model of another shape in the place of the model."""
        write_model(self.model.path, **changes)


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory):
    """Model, shards and documents; not to be changed."""
    return Artifacts(tmp_path_factory.mktemp("artifacts"), split_documents())


@pytest.fixture
def own_artifacts(tmp_path):
    """The same, for a test that changes them."""
    return Artifacts(tmp_path / "own", split_documents())


@pytest.fixture
def out(tmp_path):
    folder = UPath(tmp_path / "out")
    folder.mkdir()
    return folder
