"""Which partitions are complete under a prefix, looked up once, in a process of its own.

    echo '["2026-11-01"]' | python -m plugins.triggers.look s3://bucket/incoming

Its standard input names what is known and need not be asked for again; it prints the others that are complete, or
``null`` when the prefix is not there. A process of its own has credentials in an environment of its own, as a stage
does, while the triggerer runs the triggers of everybody; it has no cache of the last listing; and when a file system
does not answer, it can be killed, which a thread cannot.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection

from upath import UPath

from tasks.core.location import names_in

MARKS = ("_SUCCESS", "records/1.json")
"""What is written last: by Hadoop and Spark; by Headrace, where the prefix is the folder of a stage in a store."""


def complete_partitions(prefix: UPath, known: Collection[str]) -> list[str] | None:
    """Names of the folders that are complete, in order, without the known ones; None without a prefix."""
    if not prefix.exists():
        return None
    return [name for name in names_in(prefix) if is_new(name, known) and is_complete(prefix / name)]


def is_new(name: str, known: Collection[str]) -> bool:
    """Whether to ask for it; names that begin with a dot or underscore are of what is being written, or hidden."""
    return name not in known and not name.startswith((".", "_"))


def is_complete(folder: UPath) -> bool:
    return folder.is_dir() and any((folder / mark).exists() for mark in MARKS)


def main(prefix: str) -> None:
    known = set(json.load(sys.stdin))
    sys.stdout.write(json.dumps(complete_partitions(UPath(prefix), known)))


if __name__ == "__main__":
    main(sys.argv[1])
