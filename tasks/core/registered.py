"""Which artifacts an alias of MLflow's model registry names; garbage collection keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.core import mlflow_runs
from tasks.core.errors import ServiceError

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

ARTIFACT_TAG = "headrace.artifact"
"""Tag of a registered version: where the artifact lies that was registered."""


def registered_artifacts() -> set[str]:
    """URIs of the artifacts behind the aliases of all registered models.

    Raises:
        ServiceError: the registry cannot be asked; nobody may take that for "none".
    """
    uri = mlflow_runs.tracking_uri()
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).is_file():
        raise refusal(uri, "the file is not there")
    try:
        from mlflow.exceptions import MlflowException
    except ImportError as error:
        raise refusal(uri, str(error)) from error
    try:
        return set(tagged_artifacts(mlflow_runs.client()))
    except (MlflowException, OSError) as error:
        raise refusal(uri, str(error)) from error


def tagged_artifacts(mlflow: MlflowClient) -> Iterator[str]:
    """The artifact of every version that has an alias, page by page."""
    token: str | None = None
    while token != "":
        page = mlflow.search_registered_models(page_token=token)
        for model in page:
            for number in sorted(set(model.aliases.values())):
                tags = mlflow.get_model_version(model.name, str(number)).tags
                if ARTIFACT_TAG in tags:
                    yield tags[ARTIFACT_TAG]
        token = page.token or ""


def refusal(uri: str, reason: str) -> ServiceError:
    return ServiceError(
        f"the model registry at {uri} cannot be asked which artifacts it needs: {reason}; none was marked or swept",
        subject=uri,
        next_step="start it or correct MLFLOW_TRACKING_URI; gc --no-registry if this store's artifacts are in none",
    )
