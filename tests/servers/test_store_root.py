"""A store's root on each kind of server: this test's own, reachable, and seen by somebody else too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

WRITE = """
import sys, fsspec
from hdfs_native.fsspec import HdfsFileSystem
fsspec.register_implementation("hdfs", HdfsFileSystem, clobber=True)
fsspec.filesystem("file").makedirs(sys.argv[1]) if "://" not in sys.argv[1] else None
with fsspec.open(sys.argv[1] + "/a file 文件.txt", "wb") as file:
    file.write(b"content")
"""
roots_seen = set()


def seen_at(root: str, request: pytest.FixtureRequest) -> dict[str, int]:
    """Files under a root as its independent witness sees them, by their path from there."""
    if root.startswith("s3://"):
        server = request.getfixturevalue("s3_server")
        prefix = root.removeprefix(f"s3://{server.bucket}/")
        return {key.removeprefix(f"{prefix}/"): size for key, size in server.objects(prefix).items()}
    if root.startswith("hdfs://"):
        server = request.getfixturevalue("hdfs_server")
        path = root.removeprefix(server.uri)
        return {file.removeprefix(f"{path}/"): size for file, size in server.files(root).items()}
    return {str(file.relative_to(root)): file.stat().st_size for file in Path(root).rglob("*")}


def test_what_another_process_writes_lies_under_the_root(store_root, request):
    assert seen_at(store_root, request) == {}
    subprocess.run([sys.executable, "-c", WRITE, store_root], check=True)
    assert seen_at(store_root, request) == {"a file 文件.txt": 7}


@pytest.mark.parametrize("again", [1, 2])
def test_no_other_test_has_the_same_root(store_root, again):
    assert store_root not in roots_seen
    roots_seen.add(store_root)


@pytest.mark.parametrize("store_root", ["s3"], indirect=True)
def test_a_test_may_ask_for_one_kind_only(store_root):
    assert store_root.startswith("s3://")


@pytest.mark.parametrize("store_root", ["file"], indirect=True)
def test_a_local_root_brings_nobodys_keys(store_root, s3_server):
    assert os.environ.get("AWS_SECRET_ACCESS_KEY") != s3_server.secret


@pytest.mark.parametrize("store_root", ["s3", "hdfs"], indirect=True)
def test_a_root_has_a_space_and_chinese_characters(store_root):
    assert " " in store_root
    assert not store_root.isascii()
