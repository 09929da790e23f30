"""Shards on a disk, on S3 and on HDFS: written there, streamed from there, fetched from there."""

import fsspec
import numpy as np
import pytest
from datasets import load_dataset
from hdfs_native.fsspec import HdfsFileSystem
from upath import UPath

from tasks.core.errors import DataError
from tasks.lm.shard_fetch import fetch_split
from tasks.lm.token_dataset import streamed_dataset
from tasks.lm.token_shards import TokenShards
from tasks.shards.config import ShardsConfig
from tasks.shards.stage import run
from tasks.text.split import Split
from tests.shards.corpora import bytes_tokenizer, mixed_rows, write_rows

CONFIG = ShardsConfig(split=Split(0.1, 0), num_shards=3)


@pytest.fixture(scope="module", autouse=True)
def hdfs_without_java():
    """Otherwise fsspec takes pyarrow's client, which needs Hadoop."""
    fsspec.register_implementation("hdfs", HdfsFileSystem, clobber=True)


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


@pytest.mark.parametrize("store_root", ["file", "s3"], indirect=True)
def test_the_datasets_library_streams_them_from_a_disk_and_from_s3_by_itself(remote, local):
    data_files = {split: f"{remote}/{split}/*.arrow" for split in ("train", "validation", "test")}
    streams = load_dataset("arrow", data_files=data_files, streaming=True)
    for split, stream in streams.items():
        assert [row["input_ids"] for row in stream] == contents(TokenShards(local, split))


@pytest.mark.parametrize("world_size", [2, 5])
def test_the_readers_share_them_out(remote, local, world_size):
    parts = [streamed_dataset(remote, "train", rank=rank, world_size=world_size) for rank in range(world_size)]
    assert [row["input_ids"] for part in parts for row in part] == contents(TokenShards(local, "train"))


def test_a_fetched_split_is_the_one_that_was_stored(remote, local, tmp_path):
    fetched, kept = fetch_split(remote, "train", tmp_path / "here"), TokenShards(local, "train")
    np.testing.assert_array_equal(fetched.window(0, fetched.num_tokens), kept.window(0, kept.num_tokens))
    assert fetched.documents.equals(kept.documents)


def test_what_was_fetched_in_part_is_fetched_again_and_what_is_whole_is_not(local, tmp_path):
    fetch_split(local, "train", tmp_path)
    cut, whole = (tmp_path / "train" / f"shard-0000{number}.arrow" for number in (0, 1))
    cut.write_bytes(cut.read_bytes()[:-9])
    before = whole.stat().st_ino
    fetched = fetch_split(local, "train", tmp_path)
    assert contents(fetched) == contents(TokenShards(local, "train"))
    assert whole.stat().st_ino == before
    assert not list(tmp_path.rglob("*.part"))


def test_a_folder_without_an_index_is_not_fetched(local, tmp_path):
    (local / "index.json").unlink()
    with pytest.raises(DataError, match=r"no index\.json"):
        fetch_split(local, "train", tmp_path / "here")
