"""Shards on a disk, on S3 and on HDFS: written there and streamed from there."""

import pytest
from datasets import load_dataset
from upath import UPath

from tasks.lm.token_dataset import streamed_dataset
from tasks.lm.token_shards import TokenShards
from tasks.shards.config import ShardsConfig
from tasks.shards.stage import run
from tasks.text.split import Split
from tests.shards.corpora import bytes_tokenizer, mixed_rows, write_rows

CONFIG = ShardsConfig(split=Split(0.1, 0), num_shards=3)


@pytest.fixture
def local(tmp_path):
    """The shards as they come out on a disk."""
    return stored(UPath(tmp_path) / "local")


@pytest.fixture
def remote(store_root):
    return stored(UPath(store_root))


def stored(root):
    rows, tokenizer = write_rows(root / "documents", mixed_rows(70)), bytes_tokenizer(root / "tokenizer")
    run(CONFIG, rows, tokenizer, out=root / "out")
    return root / "out"


def contents(shards):
    return [shards.document_tokens(at).tolist() for at in range(shards.num_documents)]


def test_the_files_are_the_same_wherever_they_are_written(remote, local):
    names = sorted(str(file.relative_to(local)) for file in local.rglob("*.*"))
    assert len(names) == 3 + 1 + 1 + 3 + 1
    assert all((remote / name).read_bytes() == (local / name).read_bytes() for name in names)


def test_the_datasets_library_streams_them_by_itself(remote, local):
    data_files = {split: f"{remote}/{split}/*.arrow" for split in ("train", "validation", "test")}
    streams = load_dataset("arrow", data_files=data_files, streaming=True)
    for split, stream in streams.items():
        assert [row["input_ids"] for row in stream] == contents(TokenShards(local, split))


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_the_readers_share_them_out(remote, local, world_size):
    parts = [streamed_dataset(remote, "train", rank=rank, world_size=world_size) for rank in range(world_size)]
    assert [row["input_ids"] for part in parts for row in part] == contents(TokenShards(local, "train"))
