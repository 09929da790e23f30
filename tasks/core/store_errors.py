"""What a store's refusals are called: a service that is missing, with the store's name and what to look at.

The libraries tell failures of a network in dozens of classes. They are known here by the package they come from,
whatever wraps them, so that nothing of it has to be imported for a local store.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from upath import UPath

from tasks.core.errors import HeadraceError, ServiceError

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}
S3_PACKAGES = ("botocore", "aiobotocore", "aiohttp")
LOOK_S = 120.0
"""How long a store may say nothing; longer than s3fs takes to give up on a server that accepts connections only."""
WATCH_EVERY_S = 30.0
CHECK = {
    "s3": "check the bucket's name, AWS_ENDPOINT_URL, AWS_DEFAULT_REGION, and the key and its rights",
    "hdfs": "check the name node's address, HADOOP_CONF_DIR, and your ticket or HADOOP_USER_NAME",
}


@contextmanager
def told(root: UPath) -> Iterator[None]:
    """Say what a store refuses in the time of a block as what it is; our own errors and bugs pass as they are.

    Raises:
        ServiceError: the disk is full or read-only, or a remote store is out of reach or refuses us.
    """
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        refused = refusal_of_disk(error, root) or refusal_of_service(error, root)
        if refused is None:
            raise
        raise refused from error


def refusal_of_disk(error: Exception, root: UPath) -> ServiceError | None:
    """A full or read-only disk: of the store or, with a remote one, where this machine keeps what it works on."""
    if not isinstance(error, OSError) or error.errno not in NO_ROOM:
        return None
    return ServiceError(
        f"the disk cannot take the artifact: {error}",
        subject=str(error.filename or root),
        next_step=f"free space under {error.filename or root}, then run the same command; nothing was published",
    )


def refusal_of_service(error: Exception, root: UPath) -> ServiceError | None:
    """What S3 or HDFS refused, in one line; None when the error is nothing of theirs."""
    protocol = refused_by(error, root)
    if protocol is None:
        return None
    place = f"the store {root}" if protocol == root.protocol else protocol.upper()
    return ServiceError(
        f"{place} cannot be used: {first_line(error)}",
        subject=str(root),
        next_step=f"{CHECK[protocol]}; then run the same command; nothing was published",
    )


def refused_by(error: Exception, root: UPath) -> str | None:
    """Which kind of service an error comes from."""
    if any(type(one).__module__.startswith(S3_PACKAGES) for one in chain(error)):
        return "s3"
    return "hdfs" if root.protocol == "hdfs" and is_hdfs(error) else None


def first_line(error: Exception) -> str:
    """What an error says, without the stack that a name node sends along."""
    text = str(error).replace("\\n\\tat ", "\n").strip()
    return text.partition("\n")[0] or type(error).__name__


def is_hdfs(error: Exception) -> bool:
    """Whether an error may be one of ``hdfs-native``: it raises Python's own classes, and names no file of this
    machine's disk.
    """
    if isinstance(error, OSError):
        return error.filename is None
    return isinstance(error, RuntimeError) and "Error(" in str(error)


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, what it was raised from, and so on; not what merely happened before it."""
    while error is not None:
        yield error
        error = error.__cause__


def code_of(error: BaseException) -> str:
    """The code of S3's answer; empty for what is none."""
    for one in chain(error):
        response: Any = getattr(one, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code", ""))
    return ""


def within_time(look: Callable[[], None], root: UPath, limit_s: float = LOOK_S) -> None:
    """Call something that may hang in a thread of its own.

    Raises:
        ServiceError: there was no answer in time.
    """
    problems: list[BaseException] = []

    def called() -> None:
        try:
            look()
        except BaseException as error:  # noqa: BLE001 (raised again by the one who waits)
            problems.append(error)

    thread = threading.Thread(target=called, daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        raise ServiceError(
            f"the store {root} gave no answer in {limit_s:.0f} s",
            subject=str(root),
            next_step=f"{CHECK[root.protocol]}; then run the same command; nothing was published",
        )
    if problems:
        raise problems[0]


@contextmanager
def watched(look: Callable[[], None], root: UPath) -> Iterator[None]:
    """End this process with a service's exit code when the store stops answering in the time of a block.

    A call into a library that hangs can be ended in no other way. What the process held is free after a while.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.wait(WATCH_EVERY_S):
            try:
                within_time(look, root)
            except ServiceError as error:
                sys.stderr.write(f"error: {error}\nnext step: {error.next_step}\n")
                os._exit(error.exit_code)
            except Exception:  # noqa: BLE001, S112 (an answer, if a bad one; the work itself will meet it)
                continue

    threading.Thread(target=watch, name="watch over the store", daemon=True).start()
    try:
        yield
    finally:
        over.set()
