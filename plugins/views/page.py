"""Pages from templates, and what a browser is told beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from plugins.views.values import FILTERS

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


def environment() -> Environment:
    """The templates, with everything that is put into them escaped."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {one.__name__: one for one in FILTERS}
    return made


TEMPLATES = environment()
