"""What Airflow loads of Headrace. ``.airflowignore`` hides everything else in this folder from its loader, which
would register each file under its bare name and so replace installed libraries."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from plugins.links.artifact import URL_PREFIX, VIEW, ArtifactLink
from plugins.links.mlflow_run import MlflowRunLink


class HeadracePlugin(AirflowPlugin):
    """Registers the links of our operators and the pages of the artifacts."""

    name = "headrace"
    operator_extra_links = [MlflowRunLink(), ArtifactLink()]  # noqa: RUF012 (declared so by Airflow)
    external_views = [  # noqa: RUF012
        # Without a slash in front, so that it is read below the path of `[api] base_url`.
        {"name": "Artifacts", "href": f"{URL_PREFIX[1:]}/", "destination": "nav", "url_route": VIEW},
    ]

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]  # Airflow declares an attribute
        """The pages. Only the API server asks, so no other process of Airflow imports what they need."""
        from plugins.views.artifacts import app

        return [{"app": app, "url_prefix": URL_PREFIX, "name": "Artifacts"}]
