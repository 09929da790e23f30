"""HDFS by ``hdfs-native``, which speaks its protocol without a JVM.

Name services, Kerberos and whatever else is particular to a cluster come from the Hadoop configuration in
``HADOOP_CONF_DIR``. Paths here keep what the library's own lose: the name node in front and characters such as ``#``.
"""

from __future__ import annotations

import io
from typing import Any

from hdfs_native.fsspec import HdfsFileSystem as NativeFileSystem
from upath.implementations.hdfs import HDFSPath

PROTOCOL = "hdfs://"
BUFFER_BYTES = 4 << 20
PATIENCE = {
    "dfs.client.failover.max.attempts": "3",
    "dfs.client.failover.sleep.base.millis": "300",
    "dfs.client.failover.sleep.max.millis": "2000",
}
"""About ten seconds for a name node that refuses connections. The library's own patience is three minutes; a stage that
gives up is retried by Airflow, later."""


class HdfsFileSystem(NativeFileSystem):
    """As the library's, for paths with any characters, and with less patience."""

    protocol = "hdfs"

    def __init__(self, host: str | None = None, port: int | None = None, **options: Any) -> None:
        super().__init__(host, port, **{**PATIENCE, **options})

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        path = str(path)
        if path.startswith(PROTOCOL):
            path = "/" + path.removeprefix(PROTOCOL).partition("/")[2]
        return path.rstrip("/") or "/"

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        host, _, port = path.removeprefix(PROTOCOL).partition("/")[0].partition(":")
        return {"host": host or None, "port": int(port) if port else None}

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:  # type: ignore[override]
        opened = super()._open(path, mode, **options)
        if mode == "rb":
            return io.BufferedReader(Readable(opened), BUFFER_BYTES)
        return io.BufferedWriter(opened, BUFFER_BYTES)

    def glob(self, path: str, maxdepth: int | None = None, **kwargs: Any) -> Any:
        """Details are given under whole addresses: ``datasets`` asks for them, and would lose the name node."""
        found = super().glob(path, maxdepth=maxdepth, **kwargs)
        if not isinstance(found, dict):
            return found
        return {self.unstrip_protocol(name): about for name, about in found.items()}

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **kwargs: Any
    ) -> Any:
        """All files below a folder in one request. (The inherited one takes an error for an empty folder.)"""
        if maxdepth is not None or withdirs:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **kwargs)
        listed = [self._convert_file_status(one) for one in self.client.list_status(self._strip_protocol(path), True)]
        found = {one["name"]: one for one in sorted(listed, key=lambda one: one["name"]) if one["type"] == "file"}
        return found if detail else list(found)


class Readable(io.RawIOBase):
    """The library's reader as something that can be buffered; by itself it would ask the network for every byte of a
    line.
    """

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self._inner = inner

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._inner.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._inner.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._inner.tell())

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
        super().close()


class HdfsPath(HDFSPath):
    """A path whose text leads back to its name node."""

    __slots__ = ()

    def __str__(self) -> str:
        text = super().__str__()
        host, port = self.storage_options.get("host"), self.storage_options.get("port")
        if not host or not text.startswith(f"{PROTOCOL}/"):
            return str(text)
        return f"{PROTOCOL}{host}{f':{port}' if port else ''}{text.removeprefix(PROTOCOL)}"
