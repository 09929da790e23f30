"""MLflow's server behind a login. `mlflow/serve` starts it: ``uvicorn --app-dir mlflow --factory login:server``.

Every route and method wants the user ``admin`` and the password of ``bin/local-secret mlflow-password`` by HTTP Basic,
which browsers and MLflow's own client speak. Only ``/health`` is open.
"""

import base64
import hmac
import os
import subprocess
from pathlib import Path

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

ROOT = Path(__file__).resolve().parents[1]
USER = "admin"
OPEN_PATHS = frozenset({"/health"})
REFUSAL = f"Log in as {USER}; the password is in var/secrets/mlflow-password.\n"
CHALLENGE = {"WWW-Authenticate": 'Basic realm="MLflow", charset="UTF-8"'}


class Login:
    """Lets nothing through to ``app`` without the password."""

    def __init__(self, app: ASGIApp, *, password: str) -> None:
        self.app = app
        self.credentials = base64.b64encode(f"{USER}:{password}".encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] in OPEN_PATHS or self.knows(Headers(scope=scope)):
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await PlainTextResponse(REFUSAL, 401, CHALLENGE)(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    def knows(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "basic" and hmac.compare_digest(given.strip().encode(), self.credentials)


def server() -> FastAPI:
    """MLflow over the tracking database of this checkout.

    Raises:
        CalledProcessError: when the password can be neither read nor made.
    """
    from mlflow.server.constants import ARTIFACT_ROOT_ENV_VAR, BACKEND_STORE_URI_ENV_VAR
    from mlflow.server.fastapi_app import app
    from mlflow.server.handlers import initialize_backend_stores

    store, artifacts = f"sqlite:///{ROOT}/var/mlflow/mlflow.db", f"{ROOT}/var/mlflow/artifacts"
    os.environ.update({BACKEND_STORE_URI_ENV_VAR: store, ARTIFACT_ROOT_ENV_VAR: artifacts})  # as `mlflow server` does
    initialize_backend_stores(store, store, artifacts)
    told = subprocess.run([ROOT / "bin/local-secret", "mlflow-password"], stdout=subprocess.PIPE, text=True, check=True)
    app.add_middleware(Login, password=told.stdout)
    return app
