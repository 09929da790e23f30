"""A store that cannot be used: one clear error that names it and what to check, in time, with no secret in it."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tasks.core import location, store_errors
from tasks.core.errors import ConfigError, ServiceError
from tasks.core.runner import Spec, run
from tasks.core.store import REPOSITORY, open_store
from tests.servers.fixtures import forget_clients
from tests.servers.hdfs import HdfsServer
from tests.servers.seaweedfs import S3Server

SECRET = "this-must-never-be-told"


@pytest.fixture(autouse=True)
def _clients_of_its_own():
    forget_clients()
    yield
    forget_clients()


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch) -> S3Server:
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    return s3_server


@pytest.fixture
def silent():
    """A port where connections are accepted and nothing is ever said."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(50)
        yield listener.getsockname()[1]


def refusal(root: str) -> ServiceError:
    began = time.monotonic()
    with pytest.raises(ServiceError) as caught:
        open_store(root)
    assert time.monotonic() - began < 60
    text = f"{caught.value} {caught.value.next_step}"
    assert root in text
    assert "check the" in text
    assert "\n" not in str(caught.value)
    assert not [secret for secret in (SECRET, os.environ.get("AWS_SECRET_ACCESS_KEY", SECRET)) if secret in text]
    return caught.value


def test_a_wrong_bucket(s3):
    assert "bucket does not exist" in str(refusal("s3://no-such-bucket/store"))


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_a_wrong_key(s3, monkeypatch, name):
    monkeypatch.setenv(name, SECRET)
    assert "key" in str(refusal(f"s3://{s3.bucket}/store"))


def test_no_key_at_all(s3, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    assert "credentials" in str(refusal(f"s3://{s3.bucket}/store"))


def test_credentials_that_have_expired(s3, monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", SECRET)
    refusal(f"s3://{s3.bucket}/store")


def test_an_s3_that_nobody_answers_for(s3, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "Could not connect" in str(refusal(f"s3://{s3.bucket}/store"))


def test_an_s3_that_hangs(s3, monkeypatch, silent):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent}")
    patient = location.S3_OPTIONS["config_kwargs"]
    monkeypatch.setitem(location.conf["s3"], "config_kwargs", {**patient, "read_timeout": 1})
    assert "Read timeout" in str(refusal(f"s3://{s3.bucket}/store"))


def test_an_s3_gives_up_before_its_watch_does():
    tries = 5
    pauses_s = sum(0.1 * 1.7**turn for turn in range(tries))
    assert location.CONNECT_S < location.ANSWER_S
    assert tries * location.ANSWER_S + pauses_s < store_errors.LOOK_S


def test_a_name_node_that_nobody_answers_for():
    assert "refused" in str(refusal("hdfs://127.0.0.1:9/store"))


def test_a_name_node_that_hangs(monkeypatch, silent):
    monkeypatch.setattr(store_errors.within_time, "__defaults__", (2.0,))
    assert "no answer in 2 s" in str(refusal(f"hdfs://127.0.0.1:{silent}/store"))


def test_a_name_node_that_nobody_knows():
    refusal("hdfs://no-such-host.invalid:9000/store")


@pytest.mark.parametrize("store_root", ["file", "s3", "hdfs"], indirect=True)
def test_a_root_that_is_a_file(store_root):
    store = open_store(store_root)
    store.create(store.root / "file", b"not a folder")
    with pytest.raises(ConfigError, match="not a folder"):
        open_store(f"{store_root}/file")


def test_a_kind_of_store_that_is_not_known_names_those_that_are():
    with pytest.raises(ConfigError, match=r"s3://bucket/prefix, hdfs://"):
        open_store("gs://bucket/prefix")


def test_rights_that_do_not_reach_are_told_where_the_stage_meets_them(hdfs_server: HdfsServer, monkeypatch):
    for name, value in hdfs_server.environment().items():
        monkeypatch.setenv(name, value)
    store = open_store(f"{hdfs_server.uri}/read-only")
    store.root.mkdir()
    store.root.fs.client.set_permission(store.root.path, 0o555)
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")  # which the client reads when it is first made
    program = (
        "from tasks.core import store_errors\nfrom tasks.core.store import open_store\n"
        f"store = open_store({str(store.root)!r})\n"
        "with store_errors.told(store.root): store.create(store.root / 'file', b'')"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert "ServiceError" in done.stderr
    assert "Permission denied: user=somebody" in done.stderr


def test_a_bug_of_a_stage_is_not_blamed_on_the_store(s3):
    with pytest.raises(ZeroDivisionError):
        run(Spec(stage="make", config={"fail": "bug"}), open_store(f"s3://{s3.bucket}/bug"))


def test_a_store_that_falls_silent_ends_the_process_with_a_code_that_is_retried():
    program = (
        "import time\nfrom upath import UPath\nfrom tasks.core import store_errors as told\n"
        "told.WATCH_EVERY_S = 0.1\ntold.within_time.__defaults__ = (0.5,)\n"
        "with told.watched(lambda: time.sleep(60), UPath('hdfs://127.0.0.1:9/x')): time.sleep(60)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, timeout=30)
    assert done.returncode == ServiceError.exit_code
    assert "gave no answer" in done.stderr


def test_the_command_says_it_in_one_line_with_the_code_of_a_missing_service(s3, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    command = [sys.executable, "-m", "tasks", "list", "--store", f"s3://{s3.bucket}/文 store"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == ServiceError.exit_code
    assert done.stderr.count("\n") == 2
    assert SECRET not in done.stdout + done.stderr


def test_no_secret_is_in_what_is_kept_of_a_run(s3, tmp_path):
    store = open_store(f"s3://{s3.bucket}/secrets/{tmp_path.name}")
    made = run(Spec(stage="make"), store)
    kept = [s3.read(key) for key in s3.objects(f"secrets/{tmp_path.name}")]
    assert made.uri.startswith("s3://")
    assert not [one for one in kept if s3.secret.encode() in one or s3.access_key.encode() in one]
    assert s3.secret not in Path(f"/proc/{os.getpid()}/cmdline").read_text()
