"""Pages from templates: what is shown of a record, how values are written, and what a browser is told beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tasks.core.artifact import Artifact, Record
from tasks.core.plan import leaves

MAX_VALUE_CHARS = 200
HEADERS = {
    # Nothing is loaded and nothing is run: the style and the plots are in the page itself.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "private, no-store",
}


def render(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A page; links in it begin with ``root``, the path under which the API server serves this application."""
    root = str(request.scope.get("root_path", "")).rstrip("/")
    return HTMLResponse(TEMPLATES.get_template(template).render(root=root, status=status, **values), status, HEADERS)


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


def size(num_bytes: float) -> str:
    """Bytes in a unit that leaves one to four digits."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if num_bytes < 1000:
            break
        num_bytes, unit = num_bytes / 1000, {"bytes": "kB", "kB": "MB", "MB": "GB", "GB": "TB"}[unit]
    return f"{num_bytes:.3g} {unit}"


def when(iso: str) -> str:
    """A time of a record to the minute."""
    return f"{iso[:10]} {iso[11:16]} UTC"


def total_size(artifact: Artifact) -> int:
    return sum(file.size for file in artifact.record.files)


def key_of(artifact: Artifact) -> str:
    return artifact.record.identity.key


def slug(text: str) -> str:
    """A title as the name of an element."""
    return "-".join("".join(one if one.isalnum() else " " for one in text.lower()).split())


def environment(filters: Iterable[Any]) -> Environment:
    """The templates, with everything that is put into them escaped."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {one.__name__: one for one in filters}
    return made


TEMPLATES = environment((rows, simple, nested, runtime, headline, shown, cut, size, when, total_size, key_of, slug))
