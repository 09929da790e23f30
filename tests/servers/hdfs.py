"""HDFS as a NameNode and a DataNode of Hadoop, on this machine's loopback only."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.servers.daemon import READY_S, Daemon, StartError, free_ports, wait_until_ready

ROOT = Path(__file__).parents[2]
CONF = ROOT / "containers/hdfs/conf"
PACKAGE = "org.apache.hadoop.hdfs.server"
PORTS = ("NAMENODE", "NAMENODE_HTTP", "DATANODE", "DATANODE_IPC", "DATANODE_HTTP")
JAVA_OPTIONS = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
"""Small and quick to start, not quick in the long run."""
CLIENT = {
    "dfs.replication": "1",
    "dfs.client.socket-timeout": "10000",
    "dfs.client.failover.max.attempts": "3",
    "dfs.client.failover.sleep.max.millis": "1000",
    "ipc.client.connect.max.retries": "3",
    "ipc.client.connect.timeout": "5000",
}
"""What a client shall put up with: a dead server is noticed within seconds."""


class HdfsServer:
    """A NameNode and a DataNode, and a look at them by WebHDFS, which goes past the client that is tested."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self.uri = f"hdfs://127.0.0.1:{self._ports['NAMENODE']}"
        environment = {f"HDFS_{name}_PORT": str(port) for name, port in self._ports.items()}
        environment |= {"HDFS_BIND": "127.0.0.1", "HDFS_DATA": str(folder / "data"), "TZ": "UTC"}
        self._namenode = self._java("namenode.NameNode", folder / "namenode.log", environment)
        self._datanode = self._java("datanode.DataNode", folder / "datanode.log", environment)

    def _java(self, name: str, log: Path, environment: dict[str, str]) -> Daemon:
        command = [java(), *JAVA_OPTIONS, "-cp", f"{self.folder / 'server'}:{jars()}/*", f"{PACKAGE}.{name}"]
        return Daemon(name.partition(".")[2], command, log, environment)

    def start(self) -> None:
        """Start both, again on the same ports and with the same data; out of safe mode when this returns."""
        self._prepare()
        self._datanode.start()  # it waits for the NameNode, and is up when that comes
        self._format()
        self._namenode.start()
        wait_until_ready(self._takes_files, [self._namenode, self._datanode])

    def _prepare(self) -> None:
        """The configuration of the servers, with the folders that Hadoop wants to see and git cannot keep."""
        shutil.copytree(CONF, self.folder / "server", dirs_exist_ok=True)
        for name in ("hdfs", "datanode"):
            (self.folder / "server/webapps" / name).mkdir(parents=True, exist_ok=True)
        client = self.folder / "client"
        client.mkdir(exist_ok=True)
        write_configuration(client / "core-site.xml", {"fs.defaultFS": self.uri, **CLIENT})
        write_configuration(client / "hdfs-site.xml", CLIENT)

    def _format(self) -> None:
        if not (self.folder / "data/name/current/VERSION").exists():
            command = [*self._namenode.command, "-format", "-nonInteractive"]
            environment = os.environ | self._namenode.environment
            with self._namenode.log.open("ab") as log:
                done = subprocess.run(command, env=environment, stdout=log, stderr=log, check=False, timeout=READY_S)
            if done.returncode != 0:
                raise StartError(f"the NameNode cannot be formatted\n{self._namenode.last_words()}")

    def _takes_files(self) -> bool:
        """Safe mode ends when the DataNode has come with all it has, and not before."""
        bean = "/jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo"
        try:
            found = json_at(self._http(bean))["beans"]
        except (OSError, ValueError):
            return False
        return bool(found) and found[0]["Safemode"] == "" and found[0]["LiveNodes"] != "{}"

    def _http(self, path_and_query: str) -> str:
        return f"http://127.0.0.1:{self._ports['NAMENODE_HTTP']}{path_and_query}"

    def kill(self) -> None:
        """SIGKILL both, as when the machine fails."""
        self._namenode.kill()
        self._datanode.kill()

    def stop(self) -> None:
        self._namenode.stop()
        self._datanode.stop()

    def environment(self) -> dict[str, str]:
        """What HDFS clients read."""
        return {"HADOOP_CONF_DIR": str(self.folder / "client"), "HADOOP_USER_NAME": getpass.getuser()}

    def files(self, path: str = "/") -> dict[str, int]:
        """Size of each file below a folder, by its path without the server; nothing where there is no such folder."""
        found: dict[str, int] = {}
        path = path.removeprefix(self.uri)
        for one in self.listing(path):
            child = f"{path.rstrip('/')}/{one['pathSuffix']}".rstrip("/")
            if one["type"] == "DIRECTORY":
                found |= self.files(child)
            else:
                found[child] = one["length"]
        return found

    def listing(self, path: str) -> list[dict[str, Any]]:
        """WebHDFS's own words on what is in a folder."""
        try:
            return json_at(self.webhdfs(path, "LISTSTATUS"))["FileStatuses"]["FileStatus"]
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return []
            raise

    def read(self, path: str) -> bytes:
        return bytes_at(self.webhdfs(path, "OPEN"))

    def webhdfs(self, path: str, operation: str) -> str:
        """Address of an operation on a path of this file system, or on a whole ``hdfs://`` URI."""
        query = urllib.parse.urlencode({"op": operation, "user.name": getpass.getuser()})
        return self._http(f"/webhdfs/v1{urllib.parse.quote(path.removeprefix(self.uri))}?{query}")


def write_configuration(path: Path, values: dict[str, str]) -> None:
    """Hadoop's XML."""
    root = ElementTree.Element("configuration")
    for name, value in values.items():
        one = ElementTree.SubElement(root, "property")
        ElementTree.SubElement(one, "name").text = name
        ElementTree.SubElement(one, "value").text = value
    path.write_bytes(ElementTree.tostring(root))


def bytes_at(url: str) -> bytes:
    """What a server on this machine answers, past any proxy."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(url, timeout=30) as answer:
        return answer.read()


def json_at(url: str) -> Any:
    return json.loads(bytes_at(url))


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def jars() -> Path:
    """Hadoop's jars, fetched now if they are not there.

    Raises:
        StartError: with the packages that this takes and the machine lacks, or with Maven's last words.
    """
    done = subprocess.run([ROOT / "bin/hadoop-jars"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StartError(f"HDFS cannot be started\n{done.stderr[-4000:]}")
    return Path(done.stdout.strip())


@contextmanager
def hdfs_server_in(folder: Path) -> Iterator[HdfsServer]:
    """An HDFS that is stopped at the end, whatever happens."""
    server = HdfsServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
