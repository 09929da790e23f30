"""The button that opens a task's MLflow run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class MlflowRunLink(BaseOperatorLink):
    """Leads to the run that the task wrote, for a cached one to the run that made the artifact.

    Airflow calls :meth:`get_link` once, in the task's own process when the task has finished, and keeps the answer
    under ``xcom_key``; the web server only reads it. A task that failed before it had a run of its own leads to the
    parent run.
    """

    name = "MLflow run"
    xcom_key = "mlflow_link"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 (Airflow's signature)
        return str(getattr(operator, "mlflow_url", ""))
