import hashlib
import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from datasets import load_dataset
from upath import UPath

from tasks.core import events
from tasks.core.config import identity_of, validated
from tasks.core.errors import ConfigError, DataError
from tasks.lm.encoding import END_OF_TEXT, decode_text, load_tokenizer
from tasks.lm.token_dataset import token_dataset
from tasks.lm.token_shards import TokenShards
from tasks.shards.config import ShardsConfig
from tasks.shards.spool import token_dtype
from tasks.shards.stage import VERSION, run
from tasks.text.split import SPLITS, Split
from tests.shards.corpora import bytes_tokenizer, mixed_rows, row, write_rows

SPLIT = Split(0.15, 0.15)


@pytest.fixture
def tokenizer(tmp_path):
    return bytes_tokenizer(UPath(tmp_path) / "tokenizer")


@pytest.fixture
def made(tmp_path, tokenizer):
    """Runs the stage on rows and gives the artifact and the result."""

    def make(rows, name="out", **knobs):
        documents = write_rows(UPath(tmp_path) / f"{name}-in", rows)
        out = UPath(tmp_path) / name
        return out, run(ShardsConfig(**{"split": SPLIT} | knobs), documents, tokenizer, out=out)

    return make


class Notes:
    """Keeps what is said and hears nothing else."""

    def __init__(self):
        self.notes = []

    def note(self, message):
        self.notes.append(message)

    def __getattr__(self, _):
        return lambda *_: None


@pytest.fixture
def told():
    sink = Notes()
    with events.listening(sink):
        yield sink


def test_every_document_is_stored_once_and_decodes_to_its_text(made, tokenizer):
    rows = mixed_rows(150)
    out, _ = made(rows, shard_tokens=1000)
    texts = {}
    for split in SPLITS:
        shards = TokenShards(out, split)
        for at, one in enumerate(shards.documents["id"].to_pylist()):
            assert one not in texts
            texts[one] = decode_text(load_tokenizer(tokenizer), shards.document_tokens(at))
    assert texts == {one["id"]: one["text"] + END_OF_TEXT for one in rows}


def test_no_cluster_is_on_two_sides(made):
    rows = mixed_rows(300)
    for at, one in enumerate(rows):
        one["cluster"] = f"cluster {at % 60}"
    out, _ = made(rows)
    cluster_of, sides = {one["id"]: one["cluster"] for one in rows}, {}
    for split in SPLITS:
        for one in TokenShards(out, split).documents["id"].to_pylist():
            sides.setdefault(cluster_of[one], set()).add(split)
    assert len(sides) == 60
    assert all(len(side) == 1 for side in sides.values())
    assert set().union(*sides.values()) == set(SPLITS)


def lengths_of(out, split, shard):
    """Tokens of each document of a shard, by pyarrow's own reader."""
    with (out / shard["file"]).open("rb") as file:
        return pc.list_value_length(pa.ipc.open_stream(file).read_all()["input_ids"]).to_pylist()


def test_a_shard_holds_as_many_whole_documents_as_fit(made):
    out, result = made(mixed_rows(100), shard_tokens=700)
    for split, entry in json.loads((out / "index.json").read_text())["splits"].items():
        documents = [lengths_of(out, split, shard) for shard in entry["shards"]]
        assert [one for shard in documents for one in shard] == TokenShards(out, split).documents[
            "num_tokens"
        ].to_pylist()
        assert [sum(one) for one in documents] == [shard["num_tokens"] for shard in entry["shards"]]
        assert entry["num_tokens"] == result.num_tokens[split]
        for shard, following in pairwise(documents):
            assert sum(shard) <= 700 < sum(shard) + following[0]


def test_a_document_longer_than_a_shard_has_one_of_its_own(made):
    rows = [*mixed_rows(40), row(99, "the river " * 500)]
    out, _ = made(rows, shard_tokens=300, split=Split(0, 0))
    shards = json.loads((out / "index.json").read_text())["splits"]["train"]["shards"]
    assert [one["num_documents"] for one in shards if one["num_tokens"] > 300] == [1]


@pytest.mark.parametrize("num_shards", [1, 2, 7, 30])
def test_the_training_split_is_cut_into_so_many_even_shards(made, num_shards):
    out, result = made(mixed_rows(200), num_shards=num_shards)
    shards = json.loads((out / "index.json").read_text())["splits"]["train"]["shards"]
    longest = max(TokenShards(out, "train").documents["num_tokens"].to_pylist())
    assert len(shards) == num_shards == len(list((out / "train").glob("*.arrow")))
    even = result.num_tokens["train"] / num_shards
    assert all(even - longest < one["num_tokens"] < even + longest for one in shards)


def test_shards_that_hold_no_document_are_said_and_harmless(made, told):
    out, _ = made(mixed_rows(3), num_shards=5, split=Split(0, 0))
    shards = json.loads((out / "index.json").read_text())["splits"]["train"]["shards"]
    num_empty = [one["num_documents"] for one in shards].count(0)
    assert num_empty >= 2
    assert f"{num_empty} of 5 shards of the train split hold no document" in told.notes
    assert len(streamed(out, "train")) == TokenShards(out, "train").num_documents == 3


@pytest.mark.parametrize("knobs", [{"shard_tokens": 0}, {"num_shards": 0}, {"num_shards": -3}, {"shard_tokens": -1}])
def test_a_size_or_a_number_below_one_is_refused(knobs):
    with pytest.raises(ConfigError, match=f"shards.{next(iter(knobs))}.*greater than or equal to 1"):
        validated(ShardsConfig, knobs, stage="shards")


def test_a_size_and_a_number_together_are_refused():
    with pytest.raises(ConfigError, match="give shard_tokens or num_shards, not both"):
        validated(ShardsConfig, {"shard_tokens": 1000, "num_shards": 3}, stage="shards")


def test_a_number_of_shards_that_is_not_given_is_no_part_of_the_identity():
    assert "num_shards" not in identity_of(ShardsConfig())
    assert identity_of(ShardsConfig(num_shards=4))["num_shards"] == 4


def streamed(out, split):
    """What the datasets library reads by itself."""
    return list(load_dataset("arrow", data_files=f"{out}/{split}/*.arrow", split="train", streaming=True))


@pytest.mark.parametrize("knobs", [{"shard_tokens": 400}, {"num_shards": 3}])
def test_the_datasets_library_streams_the_documents_as_they_are_stored(made, knobs):
    out, _ = made(mixed_rows(80), **knobs)
    for split in SPLITS:
        shards, rows = TokenShards(out, split), streamed(out, split)
        assert len(rows) == shards.num_documents > 0
        for at, one in enumerate(rows):
            assert one["input_ids"] == shards.document_tokens(at).tolist()


def test_the_datasets_library_streams_an_empty_split_as_no_rows(made, told):
    out, _ = made(mixed_rows(20), split=Split(0, 0))
    assert "the test split holds no documents" in told.notes
    assert streamed(out, "test") == []


def test_counts_are_those_of_the_documents(made):
    rows = mixed_rows(120)
    out, result = made(rows)
    assert sum(result.num_documents.values()) == 120
    assert sum(result.num_bytes.values()) == sum(len(one["text"].encode()) for one in rows)
    train = TokenShards(out, "train").documents.to_pylist()
    size_of = {one["id"]: len(one["text"].encode()) for one in rows}
    assert [one["num_bytes"] for one in train] == [size_of[one["id"]] for one in train]
    by_source = Counter()
    for one in train:
        by_source[one["source"]] += one["num_tokens"]
    for source, count in by_source.items():
        assert result.num_tokens_by_source[f"train/{source}"] == count
    assert sum(result.num_tokens_by_language.values()) == sum(result.num_tokens.values())


def test_training_documents_of_all_sources_are_mixed(made):
    out, _ = made(mixed_rows(300))
    sources = TokenShards(out, "train").documents["source"].to_pylist()
    changes = sum(a != b for a, b in pairwise(sources))
    assert changes > len(sources) / 3


def test_the_seed_decides_the_order_of_training_documents_only(made):
    rows = mixed_rows(200)
    outs = [made(rows, name, seed=seed)[0] for name, seed in [("a", 0), ("b", 0), ("c", 1)]]
    train = [TokenShards(out, "train").documents["id"].to_pylist() for out in outs]
    assert train[0] == train[1] != train[2]
    assert sorted(train[0]) == sorted(train[2])
    assert TokenShards(outs[0], "test").documents.equals(TokenShards(outs[2], "test").documents)


def test_the_same_documents_make_the_same_bytes(made):
    rows = mixed_rows(60)
    files = []
    for name in ("a", "b"):
        out, _ = made(rows, name, shard_tokens=500)
        files.append({path.relative_to(out): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()})
    assert files[0] == files[1]


def test_how_it_is_encoded_changes_no_bytes(made):
    rows = mixed_rows(700)
    outs = [made(rows, name, fast_encoding=fast)[0] for name, fast in [("a", True), ("b", False)]]
    files = [{path.name: path.read_bytes() for path in sorted((out / "train").iterdir())} for out in outs]
    assert files[0] == files[1]


def test_encoding_with_tokenizers_is_said(made, told):
    made(mixed_rows(30), fast_encoding=False)
    assert "the tokenizers library encodes, not tiktoken: it was asked to" in told.notes


def test_special_token_text_in_a_document_is_no_end_of_document(made):
    rows = [row(at, f"{at} says <|endoftext|> and <|end|>") for at in range(40)]
    out, _ = made(rows)
    shards = TokenShards(out, "train")
    tokens = shards.window(0, shards.num_tokens)
    ends = np.cumsum(shards.documents["num_tokens"].to_numpy()) - 1
    assert np.flatnonzero(tokens < 4).tolist() == ends.tolist()


def test_an_empty_document_is_stored_as_its_end(made):
    rows = [*mixed_rows(60), row(99, "", cluster="a cluster of the training split")]
    out, _ = made(rows, split=Split(0, 0))
    train = TokenShards(out, "train")
    at = train.documents["id"].to_pylist().index(rows[-1]["id"])
    assert train.document_tokens(at).tolist() == [train.eos_id]
    assert train.documents["num_bytes"][at].as_py() == 0


def test_a_vocabulary_above_65536_is_stored_in_four_bytes():
    assert [token_dtype(size).itemsize for size in (260, 65_536, 65_537)] == [2, 2, 4]


@pytest.mark.parametrize(
    ("split", "side"), [(Split(0.9, 0.09), "train"), (Split(0.001, 0), "validation"), (Split(0, 0.001), "test")]
)
def test_a_side_that_stays_empty_is_an_error(made, split, side):
    with pytest.raises(DataError, match=f"the {side} split is empty: none of 1 documents"):
        made([row(0, "one document", cluster="cluster-0")], split=split)


def test_a_side_that_nobody_asked_for_may_be_empty(made):
    out, result = made(mixed_rows(20), split=Split(0, 0))
    assert result.num_documents == {"train": 20, "validation": 0, "test": 0}
    assert TokenShards(out, "test").num_samples(8) == 0


def test_no_index_is_written_when_the_split_is_refused(made, tmp_path):
    with pytest.raises(DataError):
        made([row(0, "one document")])
    assert not (tmp_path / "out" / "index.json").exists()


@pytest.mark.parametrize("length", [8, 31])
def test_the_dataset_has_the_rows_of_the_reader(made, length):
    out, _ = made(mixed_rows(80), shard_tokens=333)
    shards, dataset = TokenShards(out, "train"), token_dataset(out, "train", length)
    assert len(dataset) == shards.num_samples(length) > 50
    for at in range(len(dataset)):
        assert dataset[at]["input_ids"] == shards.sample(at, length).tolist()


def test_the_dataset_of_an_empty_split_is_empty(made):
    out, _ = made(mixed_rows(20), split=Split(0, 0))
    assert len(token_dataset(out, "test", 8)) == 0


def test_what_the_stage_makes_changes_only_with_its_version(made):
    out, _ = made(mixed_rows(60), shard_tokens=500)
    files = [*sorted(out.rglob("*.arrow")), out / "index.json"]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    assert (VERSION, digest[:16]) == (2, "30aef75e13787d22")
