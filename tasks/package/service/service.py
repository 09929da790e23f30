"""The BentoML service: loads the packaged model once per worker and serves the completions interface."""

from __future__ import annotations

from pathlib import Path

import bentoml

from tasks.package.service.api import create_app
from tasks.package.service.engine import Engine
from tasks.package.service.limits import Limits
from tasks.package.service.metrics import Metrics

MODEL = Path(__file__).parents[3] / "model"
"""Beside the source inside the package."""
GRACE_S = 5
"""BentoML's own timeout answers in another shape, so it only backs up ours."""

limits = Limits.read(MODEL)
app = create_app(limits)


@bentoml.service(name=limits.model_name, workers=limits.workers, traffic={"timeout": limits.timeout_s + GRACE_S})
@bentoml.asgi_app(app, path="/v1")
class Completions:
    """Continues text. POST /v1/completions, GET /v1/models; /livez, /readyz and /metrics are BentoML's."""

    def __init__(self) -> None:
        app.state.engine = Engine(MODEL, limits)
        app.state.metrics = Metrics()

    @bentoml.on_shutdown  # type: ignore[untyped-decorator]
    def close(self) -> None:
        app.state.engine.close()
