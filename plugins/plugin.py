"""What Airflow loads of Headrace. ``.airflowignore`` hides everything else in this folder from its loader, which
would register each file under its bare name and so replace installed libraries."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from plugins.links.mlflow_run import MlflowRunLink


class HeadracePlugin(AirflowPlugin):
    """Registers the links of our operators."""

    name = "headrace"
    operator_extra_links = [MlflowRunLink()]  # noqa: RUF012 (declared so by Airflow)
