"""The button that opens the page of the artifact a task made or found, and where those pages are."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

URL_PREFIX = "/headrace"
"""Where the API server serves our pages."""
VIEW = "artifacts"
"""The UI shows them inside its own frame, at ``plugin/<VIEW>/<path of the page>``."""


class ArtifactLink(BaseOperatorLink):
    """Leads to the page of the artifact that the task handed on; no button where it handed on none.

    Computed in the task's own process and kept under ``xcom_key``, as :class:`~plugins.links.mlflow_run.MlflowRunLink`.
    """

    name = "Artifact"
    xcom_key = "artifact_link"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 (Airflow's signature)
        return address_of(getattr(operator, "artifact_uri", ""))


def address_of(uri: str) -> str:
    """Path of an artifact's page inside the UI, below the path of ``[api] base_url``; empty for no artifact."""
    if not uri:
        return ""
    base = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
    stage, key = uri.rstrip("/").split("/")[-2:]
    return f"{base}/plugin/{VIEW}{base}{URL_PREFIX}/{stage}/{key}"
