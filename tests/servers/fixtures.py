"""Real servers for any test, and a store's root on each of them.

``s3_server`` and ``hdfs_server`` are started when the first test of a run asks for one, and serve all that follow:

    def test_…(s3_server, monkeypatch):
        for name, value in s3_server.environment().items():
            monkeypatch.setenv(name, value)
        …
        assert s3_server.objects("some/prefix/") == {"some/prefix/a.txt": 3}  # what botocore sees
        s3_server.kill()   # as when the machine fails
        s3_server.start()  # the same port, the same data

``store_root`` runs a test three times, with a URI that nobody used before, on a local disk, on S3 and on HDFS, and with
the environment that its clients need, also those in processes that the test starts. To leave some out:

    @pytest.mark.parametrize("store_root", ["s3", "hdfs"], indirect=True)
    def test_…(store_root): …

Who kills the shared servers starts them again before the test ends. A test that must not share one makes its own, by
``s3_server_in(folder)`` of ``tests.servers.seaweedfs`` or ``hdfs_server_in(folder)`` of ``tests.servers.hdfs``.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.servers.hdfs import HdfsServer
    from tests.servers.seaweedfs import S3Server

PLACE = "shops 商店"
"""A folder that every test's root lies in: a space and Chinese characters have to survive all of it."""
ELSEWHERE = ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "HADOOP_HOME")
"""What a developer may have set, and what would lead to another server or as another user."""


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server with one bucket, which asks for keys."""
    from tests.servers.seaweedfs import s3_server_in

    with s3_server_in(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def hdfs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """An HDFS of one NameNode and one DataNode."""
    from tests.servers.hdfs import hdfs_server_in

    with hdfs_server_in(tmp_path_factory.mktemp("hdfs")) as server:
        yield server


@pytest.fixture(params=["file", "s3", "hdfs"])
def store_root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """URI of a place for a store that is this test's own."""
    own = f"{PLACE}/{secrets.token_hex(4)}"
    if request.param == "file":
        yield str(tmp_path / own)
        return
    server = request.getfixturevalue(f"{request.param}_server")
    for name in ELSEWHERE:
        monkeypatch.delenv(name, raising=False)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    forget_clients()
    yield f"s3://{server.bucket}/{own}" if request.param == "s3" else f"{server.uri}/{own}"
    forget_clients()


def forget_clients() -> None:
    """fsspec keeps one client per address and process, with its keys and with what it saw in folders."""
    from hdfs_native.fsspec import HdfsFileSystem
    from s3fs import S3FileSystem

    for one in (S3FileSystem, HdfsFileSystem):
        one.clear_instance_cache()
