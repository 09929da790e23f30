"""A stream of documents is shared out among its readers."""

from collections import Counter

import numpy as np
import pytest
from torch.utils.data import DataLoader
from upath import UPath

from tasks.core.errors import DataError
from tasks.lm import shard_file
from tasks.lm.token_dataset import streamed_dataset
from tasks.lm.token_shards import TokenShards
from tasks.shards.config import ShardsConfig
from tasks.shards.stage import run
from tasks.text.split import Split
from tests.shards.corpora import bytes_tokenizer, mixed_rows, write_rows

NUM_DOCUMENTS = 61


@pytest.fixture(params=[1, 3, 20])
def stored(request, tmp_path, monkeypatch):
    """An artifact of 61 documents in so many shards, of several record batches each."""
    monkeypatch.setattr("tasks.shards.writer.BATCH_TOKENS", 150)
    assert shard_file.BATCH_TOKENS > 150
    folder = UPath(tmp_path)
    rows, tokenizer = write_rows(folder / "in", mixed_rows(NUM_DOCUMENTS)), bytes_tokenizer(folder / "tokenizer")
    run(ShardsConfig(split=Split(0, 0), num_shards=request.param), rows, tokenizer, out=folder / "out")
    return folder / "out"


def contents(folder):
    shards = TokenShards(folder, "train")
    return [tuple(shards.document_tokens(at).tolist()) for at in range(shards.num_documents)]


def read(dataset):
    return [tuple(row["input_ids"]) for row in dataset]


@pytest.mark.parametrize("world_size", [1, 2, 3, 7, NUM_DOCUMENTS])
def test_the_readers_together_read_every_document_once_and_none_is_idle(stored, world_size):
    parts = [read(streamed_dataset(stored, "train", rank=rank, world_size=world_size)) for rank in range(world_size)]
    assert [one for part in parts for one in part] == contents(stored)
    assert {len(part) for part in parts} <= {NUM_DOCUMENTS // world_size, -(-NUM_DOCUMENTS // world_size)}


@pytest.mark.parametrize("num_workers", [1, 2])
def test_every_worker_of_a_loader_is_a_reader_of_its_own(tmp_path, stored, num_workers):
    found = Counter()
    for rank in range(2):
        dataset = streamed_dataset(stored, "train", rank=rank, world_size=2, num_workers=num_workers)
        assert dataset.num_shards == num_workers
        found.update(read(DataLoader(dataset, batch_size=None, num_workers=num_workers)))
    assert found == Counter(contents(stored))


def test_a_stream_goes_on_where_its_state_was_taken(stored):
    first, second = (streamed_dataset(stored, "train", rank=1, world_size=2) for _ in range(2))
    rows = iter(first)
    begun = [tuple(next(rows)["input_ids"]) for _ in range(7)]
    second.load_state_dict(first.state_dict())
    assert begun + read(second) == read(streamed_dataset(stored, "train", rank=1, world_size=2))


def test_more_readers_than_documents_are_refused(stored):
    with pytest.raises(DataError, match="62 readers for 61 documents") as caught:
        streamed_dataset(stored, "train", world_size=31, num_workers=2)
    assert "fewer readers" in caught.value.next_step


def test_an_empty_split_is_an_empty_stream_for_every_reader(stored):
    assert [read(streamed_dataset(stored, "test", rank=rank, world_size=3)) for rank in range(3)] == [[], [], []]


def test_the_stored_width_is_that_of_the_stream(stored):
    assert streamed_dataset(stored, "train").features["input_ids"].feature.dtype == "uint16"
    rows = next(iter(streamed_dataset(str(stored), "train").with_format("numpy")))
    assert np.issubdtype(rows["input_ids"].dtype, np.integer)
