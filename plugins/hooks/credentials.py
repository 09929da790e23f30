"""Airflow's Connections as the environment of our commands, which is the only place where credentials go.

In ``airflow.cfg`` (or ``AIRFLOW__HEADRACE__…`` in the environment)::

    [headrace]
    store_conn_id = lake
    source_conn_ids = lake, archive

A Connection is of type ``aws`` (with the fields of Airflow's amazon provider) or ``hdfs``; or of type ``generic``,
which the UI offers without any provider, with ``"kind": "s3"`` or ``"kind": "hdfs"`` in its extra. What a Connection
does not say stays as the worker's own environment has it, and without any Connection that is all there is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from airflow.sdk import Connection
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import amask_secret, mask_secret

from tasks.core.errors import ConfigError

SECTION = "headrace"
STORE = "HEADRACE_STORE"
KIND_OF_TYPE = {"aws": "s3", "s3": "s3", "hdfs": "hdfs"}
VARIABLES = {
    "s3": {
        "login": "AWS_ACCESS_KEY_ID",
        "password": "AWS_SECRET_ACCESS_KEY",
        "aws_session_token": "AWS_SESSION_TOKEN",
        "endpoint_url": "AWS_ENDPOINT_URL",
        "region_name": "AWS_DEFAULT_REGION",
    },
    "hdfs": {
        "login": "HADOOP_USER_NAME",
        "user": "HADOOP_USER_NAME",
        "hadoop_conf_dir": "HADOOP_CONF_DIR",
        "krb5_ccname": "KRB5CCNAME",
        "krb5_config": "KRB5_CONFIG",
    },
}
"""Environment variable of each field of a Connection, by kind; all but login and password are in its extra."""
SECRET = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
HIDDEN = "***"


class ConnectionFields(Protocol):
    """What we read of a Connection."""

    conn_type: Any
    login: Any
    password: Any
    host: Any
    port: Any
    extra: Any


@dataclass(frozen=True)
class Credentials:
    """Additions to a command's environment; their text is never shown."""

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def secrets(self) -> list[str]:
        return [self.environment[name] for name in SECRET if self.environment.get(name)]

    def hide(self, text: str) -> str:
        """A text without the secrets, for what is shown where Airflow's own masking does not reach."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text


def for_commands() -> Credentials:
    """What every command of a task gets, its secrets masked in the task's log.

    Raises:
        ConfigError: a Connection is missing or cannot be used.
    """
    found = {}
    for conn_id in conn_ids():
        try:
            found[conn_id] = Connection.get(conn_id)
        except AirflowNotFoundException:
            raise no_such(conn_id) from None
    credentials = credentials_of(found)
    for secret in credentials.secrets:
        mask_secret(secret)
    return credentials


async def for_trigger() -> Credentials:
    """The same in the triggerer, where nothing may block.

    Raises:
        ConfigError: a Connection is missing or cannot be used.
    """
    found = {}
    for conn_id in conn_ids():
        try:
            found[conn_id] = await Connection.async_get(conn_id)
        except AirflowNotFoundException:
            raise no_such(conn_id) from None
    credentials = credentials_of(found)
    for secret in credentials.secrets:
        await amask_secret(secret)
    return credentials


def store_conn_id() -> str:
    return str(conf.get(SECTION, "store_conn_id", fallback="")).strip()


def conn_ids() -> list[str]:
    """The configured Connections, the store's first, each once."""
    sources = conf.get(SECTION, "source_conn_ids", fallback="").split(",")
    return list(dict.fromkeys(name for one in (store_conn_id(), *sources) if (name := one.strip())))


def no_such(conn_id: str) -> ConfigError:
    option = "store_conn_id" if conn_id == store_conn_id() else "source_conn_ids"
    return ConfigError(
        f"there is no connection {conn_id!r}",
        [f"[{SECTION}] {option} names it"],
        next_step=f"add {conn_id} under Admin, Connections, or correct [{SECTION}] {option}",
    )


def credentials_of(connections: Mapping[str, ConnectionFields]) -> Credentials:
    """One environment of several Connections, of which those of a kind must say the same.

    Raises:
        ConfigError: naming the Connections and fields at fault, never what they hold.
    """
    by_kind: dict[str, tuple[str, dict[str, str]]] = {}
    store: dict[str, str] = {}
    for conn_id, connection in connections.items():
        kind, extra = kind_and_extra(conn_id, connection)
        if conn_id == store_conn_id():
            store = store_of(conn_id, connection, extra)
        found = environment_of(conn_id, kind, connection, extra)
        first, before = by_kind.setdefault(kind, (conn_id, found))
        if different := sorted(name for name in {*before, *found} if before.get(name) != found.get(name)):
            raise ConfigError(
                f"connections {first!r} and {conn_id!r} are both for {kind} and differ",
                [f"in {', '.join(different)}"],
                next_step="use one connection: a command has one identity for each kind of file system",
            )
    return Credentials({**store, **{name: value for _, found in by_kind.values() for name, value in found.items()}})


def kind_and_extra(conn_id: str, connection: ConnectionFields) -> tuple[str, dict[str, str]]:
    """What kind of file system a Connection is for, and its extra."""
    try:
        extra = json.loads(connection.extra or "{}")
    except ValueError:
        raise unusable(conn_id, ["extra: is not JSON"]) from None  # the message would quote it
    if not isinstance(extra, dict):
        raise unusable(conn_id, ["extra: is not an object"])
    if problems := [f"extra.{name}: is not a text" for name, value in extra.items() if not isinstance(value, str)]:
        raise unusable(conn_id, problems)
    kind = KIND_OF_TYPE.get(connection.conn_type or "") or extra.get("kind", "")
    if kind not in VARIABLES:
        raise unusable(conn_id, ['its type is neither aws nor hdfs, and extra.kind neither "s3" nor "hdfs"'])
    return kind, {name: value for name, value in extra.items() if name != "kind"}


def environment_of(conn_id: str, kind: str, connection: ConnectionFields, extra: Mapping[str, str]) -> dict[str, str]:
    """The environment that a Connection stands for."""
    problems = list(problems_of(conn_id, kind, connection, extra))
    if problems:
        raise unusable(conn_id, problems)
    given = {"login": connection.login, "password": connection.password, **extra}
    found = {variable: str(given[name]) for name, variable in VARIABLES[kind].items() if given.get(name)}
    if "AWS_ACCESS_KEY_ID" in found:
        found.setdefault("AWS_SESSION_TOKEN", "")  # one of the worker's own would belong to other keys
    return found


def problems_of(conn_id: str, kind: str, connection: ConnectionFields, extra: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with a Connection's fields. An unknown one is not passed over: it may be a role to take on."""
    known = [name for name in VARIABLES[kind] if name not in ("login", "password")]
    also = ["store"] if conn_id == store_conn_id() else []
    for name in extra.keys() - {*known, *also}:
        yield f"extra.{name}: no such field; known: {', '.join([*known, *also])}"
    if kind == "s3" and bool(connection.login) != bool(connection.password):
        missing = "password (the secret access key)" if connection.login else "login (the access key id)"
        yield f"{missing}: missing; fill in both, or neither for the worker's own identity"
    if kind == "s3" and connection.host:
        yield "host: is not read; the address of a server other than Amazon's is extra.endpoint_url"


def store_of(conn_id: str, connection: ConnectionFields, extra: Mapping[str, str]) -> dict[str, str]:
    """The store, if its Connection names it: whole, or as a path on the Connection's HDFS host."""
    place = extra.get("store", "")
    if place.startswith("/") and connection.host:
        port = f":{connection.port}" if connection.port else ""
        return {STORE: f"hdfs://{connection.host}{port}{place}"}
    if place and "://" not in place:
        raise unusable(
            conn_id, ["extra.store: neither s3://bucket/prefix, hdfs://host:port/path, nor a host and /path"]
        )
    return {STORE: place} if place else {}


def unusable(conn_id: str, problems: list[str]) -> ConfigError:
    return ConfigError(
        f"connection {conn_id!r} cannot be used",
        sorted(problems),
        next_step=f"correct the fields of {conn_id} under Admin, Connections",
    )
