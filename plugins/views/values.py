"""How the values of a record are written for a person. The templates use these as filters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tasks.core.artifact import Artifact, Record
from tasks.core.plan import leaves

MAX_VALUE_CHARS = 200
UNITS = ("bytes", "kB", "MB", "GB", "TB")


def rows(values: Any) -> list[tuple[str, str]]:
    """The leaves of nested values with dotted names, each as a person reads it."""
    return [(name, shown(value)) for name, value in leaves(values) if name]


def simple(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that need one row each."""
    return {name: value for name, value in values.items() if not is_nested(value)}


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are a table of their own."""
    return {name: value for name, value in values.items() if is_nested(value)}


def is_nested(value: Any) -> bool:
    return bool(value) and (isinstance(value, dict) or (isinstance(value, list) and isinstance(value[0], dict | list)))


def runtime(record: Record) -> dict[str, Any]:
    """The knobs that only said how to run: those of the configuration that are not part of the identity."""
    decided = dict(leaves(record.identity.knobs))
    return {name: value for name, value in leaves(record.config) if name not in decided}


def headline(result: Mapping[str, Any]) -> str:
    """The first few numbers of a result in one line; those of its parts where it has no other."""
    numbers = [(name, value) for name, value in leaves(result) if isinstance(value, int | float)]
    plain = [(name, value) for name, value in numbers if name in result] or numbers
    return " · ".join(f"{shown(value)} {spoken(name)}" for name, value in plain[:3])


def spoken(name: str) -> str:
    """``num_tokens.train`` as one would say it."""
    return name.removeprefix("num_").replace("_", " ").replace(".", " ")


def shown(value: Any) -> str:
    """A value of a record in one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
    if value is None or value in ("", [], {}):
        return "none"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return cut(", ".join(value), MAX_VALUE_CHARS)
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), MAX_VALUE_CHARS)


def cut(text: str, most: int) -> str:
    """At most ``most`` characters of a text, the last an ellipsis where it was longer."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def size(num_bytes: int) -> str:
    """Bytes in the unit that leaves one to three digits before the point."""
    power = min((len(str(num_bytes)) - 1) // 3, len(UNITS) - 1)
    return f"{num_bytes / 1000**power:.4g} {UNITS[power]}"


def when(iso: str) -> str:
    """A time of a record to the minute."""
    return f"{iso[:10]} {iso[11:16]} UTC"


def key_of(artifact: Artifact) -> str:
    return artifact.record.identity.key


def slug(text: str) -> str:
    """A title as the name of an element."""
    return "-".join("".join(one if one.isalnum() else " " for one in text.lower()).split())


FILTERS = (rows, simple, nested, runtime, headline, shown, cut, size, when, key_of, slug)
