"""The pages of the artifacts, as an application that Airflow's API server mounts.

=====================  ==========================================
``/``                  every stage with its newest artifacts
``/<stage>``           all artifacts of a stage, fifty on a page
``/<stage>/<key>``     one artifact
=====================  ==========================================

The API server lets anybody reach the applications of plugins, so this one asks for itself: whoever may read the tasks'
logs may read these pages, which show as much of the documents as those. Nothing is served but pages: no files, no
schema, and no redirect that would answer before the login is asked for.

The store is the one that the API server's own environment names, with the credentials in it: ``HEADRACE_STORE`` and,
for S3 or HDFS, ``AWS_…`` or ``HADOOP_…``, as the server is started. ``[headrace] store_conn_id`` is not read here: the
store's libraries take credentials from the environment of a process, and this process is all of Airflow's server, its
reading of logs included. Give it an identity that may only read.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import Depends, FastAPI, Query, Request
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from plugins.links.artifact import URL_PREFIX
from plugins.views import catalogue, excerpts, figures, lineage
from plugins.views.page import render
from tasks.core.artifact import altered
from tasks.core.errors import HeadraceError
from tasks.core.store import open_store

PAGE_ROWS = 50
NEWEST = 5
"""Artifacts of each stage on the first page."""
MAX_CHECKED = 500
"""Files whose presence is checked; each is a question to the store."""

may_read = requires_access_dag("GET", DagAccessEntity.TASK_LOGS)

app = FastAPI(
    title="Headrace artifacts",
    dependencies=[Depends(may_read)],
    redirect_slashes=False,
    docs_url=None,
    redoc_url=None,
    openapi_url=None,
)


@app.get("/")
def all_stages(request: Request) -> HTMLResponse:
    """Every stage with its newest artifacts, in the order in which data flows."""
    store = open_store()
    return render(request, "stages.html", stages=catalogue.catalogue(store), newest=NEWEST, store=store.root)


@app.get("/{stage}")
def one_stage(request: Request, stage: str, page: Annotated[int, Query(ge=1, le=100_000)] = 1) -> HTMLResponse:
    """All artifacts of a stage, newest first."""
    store = open_store()
    found = catalogue.artifacts_of(store, stage)
    shown = found[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    if not shown:
        raise HTTPException(404, f"The store {store.root} has no artifact of a stage of this name on page {page}.")
    last = -(-len(found) // PAGE_ROWS)
    return render(request, "stage.html", stage=stage, artifacts=shown, page=page, last=last, total=len(found))


@app.get("/{stage}/{key}")
def one_artifact(request: Request, stage: str, key: str) -> HTMLResponse:
    """What an artifact is, why it was made, from what, for what, and what its numbers look like."""
    store = open_store()
    artifact = catalogue.find(store, stage, key)
    if artifact is None:
        raise HTTPException(404, f"The store {store.root} has no artifact of this name.")
    everything = catalogue.catalogue(store)
    return render(
        request,
        "artifact.html",
        artifact=artifact,
        record=artifact.record,
        lost=altered(artifact) if len(artifact.record.files) <= MAX_CHECKED else [],
        predecessor=lineage.predecessor_of(artifact, everything[stage]),
        sources=lineage.sources_of(store, artifact.record),
        users=lineage.users_of(everything, artifact),
        figures=figures.figures_of(artifact),
        samples=excerpts.samples_of(artifact),
    )


@app.exception_handler(HTTPException)
def refused(request: Request, error: HTTPException) -> HTMLResponse:
    """A page for what cannot be shown; for somebody who is not logged in, with the way to log in."""
    root = str(request.scope.get("root_path", ""))
    login = f"{root.removesuffix(URL_PREFIX)}/auth/login?next={quote(request.url.path)}"
    return render(request, "refused.html", status=error.status_code, reason=error.detail, login=login)


@app.exception_handler(HeadraceError)
def unusable(request: Request, error: HeadraceError) -> HTMLResponse:
    """The store itself cannot be read."""
    return render(request, "refused.html", status=503, reason=f"{error}; {error.next_step}", login="")
