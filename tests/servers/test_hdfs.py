"""The HDFS of the tests is a real one: what one client writes another one sees, also after the servers were killed."""

import hashlib
import random

import pytest
from hdfs_native import Client


@pytest.fixture
def client(hdfs_server, monkeypatch) -> Client:
    for name, value in hdfs_server.environment().items():
        monkeypatch.setenv(name, value)
    return Client(hdfs_server.uri)


def write(client: Client, path: str, content: bytes) -> None:
    with client.create(path) as file:
        file.write(content)


def test_webhdfs_agrees_with_what_hdfs_native_wrote(hdfs_server, client):
    content = random.Random(1).randbytes(3 << 20)
    write(client, "/agree/a file 文件.bin", content)
    write(client, "/agree/deeper/empty", b"")
    assert hdfs_server.files("/agree") == {"/agree/a file 文件.bin": 3 << 20, "/agree/deeper/empty": 0}
    read = hdfs_server.read("/agree/a file 文件.bin")
    assert hashlib.sha256(read).digest() == hashlib.sha256(content).digest()


def test_where_no_folder_is_there_are_no_files(hdfs_server):
    assert hdfs_server.files("/nowhere") == {}


def test_killed_servers_come_back_with_what_was_committed(hdfs_server, client):
    write(client, "/kept/a.txt", b"committed")
    hdfs_server.kill()
    with pytest.raises(OSError):  # noqa: PT011 (whatever it is called)
        hdfs_server.read("/kept/a.txt")
    hdfs_server.start()
    assert hdfs_server.files("/kept") == {"/kept/a.txt": 9}
    assert hdfs_server.read("/kept/a.txt") == b"committed"
    write(client, "/kept/b.txt", b"new")
    assert hdfs_server.read("/kept/b.txt") == b"new"


def test_a_rename_does_not_overwrite_unless_it_is_told_to(hdfs_server, client):
    write(client, "/rename/first", b"first")
    write(client, "/rename/second", b"second")
    with pytest.raises(FileExistsError):
        client.rename("/rename/second", "/rename/first", False)
    assert hdfs_server.read("/rename/first") == b"first"
    client.rename("/rename/second", "/rename/first", True)
    assert hdfs_server.read("/rename/first") == b"second"


def test_a_file_that_is_there_is_not_created_again(hdfs_server, client):
    write(client, "/exclusive/one", b"first")
    with pytest.raises(FileExistsError):
        client.create("/exclusive/one")
    assert hdfs_server.read("/exclusive/one") == b"first"
