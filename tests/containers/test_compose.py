"""The servers for who has Docker.

The file was read and its parts were tried, but it was never run as a whole: no Docker engine was at hand. What is tried
is SeaweedFS's command line here, and Hadoop's configuration in ``tests/servers``, which starts its HDFS with it.
"""

import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from tests.servers.daemon import Daemon, free_ports, wait_until_ready
from tests.servers.seaweedfs import PORTS, remove_sockets, weed

FILE = Path(__file__).parents[2] / "containers/compose.yaml"
SERVICES = yaml.safe_load(FILE.read_text())["services"]


def test_every_port_is_published_on_the_loopback_only():
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(published) >= 4
    assert [port for port in published if not re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)] == []
    assert [name for name, service in SERVICES.items() if service.get("network_mode") == "host"] == []


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_has_a_version(name):
    assert re.fullmatch(r"[a-z]+/[a-z]+:\d+\.\d+(\.\d+)?", SERVICES[name]["image"])


def test_keys_come_from_the_environment_and_have_no_default():
    keys = [value for name, value in SERVICES["s3"]["environment"].items() if "KEY" in name]
    assert len(keys) == 2
    assert [value for value in keys if not re.fullmatch(r"\$\{S3_[A-Z]+_KEY:\?[a-z ]+\}", value)] == []


def test_the_datanode_shares_the_namenodes_network_and_configuration():
    """Its address is 127.0.0.1, for the NameNode as for the clients outside."""
    datanode, namenode = SERVICES["datanode"], SERVICES["namenode"]
    assert datanode["network_mode"] == "service:namenode"
    assert datanode["volumes"] == namenode["volumes"]
    assert datanode["environment"].items() <= namenode["environment"].items()
    assert "ENSURE_NAMENODE_DIR" not in datanode["environment"]


def test_a_mounted_folder_is_there():
    mounted = [one.split(":")[0] for service in SERVICES.values() for one in service["volumes"] if one[0] == "."]
    assert [folder for folder in mounted if not (FILE.parent / folder).is_dir()] == []


def test_its_s3_server_lets_nobody_in_without_a_key(tmp_path):
    """The command as it is written, but in a folder and on ports of the test's own."""
    ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
    own = ports | {"s3.port.iceberg": 0, "s3.port.lance": 0, "dir": tmp_path, "ip": "127.0.0.1", "ip.bind": "127.0.0.1"}
    command = [weed(), *SERVICES["s3"]["command"].split(), *(f"-{name}={value}" for name, value in own.items())]
    keys = dict.fromkeys(SERVICES["s3"]["environment"], "chosen")
    daemon = Daemon("SeaweedFS", command, tmp_path / "log", keys)
    try:
        daemon.start()
        wait_until_ready(lambda: code_of(ports["s3.port"]) is not None, [daemon])
        assert code_of(ports["s3.port"]) == 403
    finally:
        daemon.kill()
        remove_sockets(ports)


def code_of(port: int) -> int | None:
    """What the server answers to a stranger; None as long as there is no answer."""
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).status
    except urllib.error.HTTPError as refused:
        return refused.code
    except OSError:
        return None
