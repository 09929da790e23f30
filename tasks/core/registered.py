"""Which artifacts an alias of MLflow's model registry names; garbage collection keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tasks.core import mlflow_runs
from tasks.core.errors import ServiceError

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion, RegisteredModel
    from mlflow.store.entities import PagedList
    from mlflow.tracking import MlflowClient

Found = TypeVar("Found")

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
    models: Iterator[RegisteredModel] = all_pages(mlflow.search_registered_models)
    for model in models:
        for number in sorted(set(model.aliases.values())):
            tags = mlflow.get_model_version(model.name, str(number)).tags
            if ARTIFACT_TAG in tags:
                yield tags[ARTIFACT_TAG]


def versions(mlflow: MlflowClient, model: str) -> Iterator[ModelVersion]:
    """All versions of a registered model, page by page."""
    wanted = f"name = '{mlflow_runs.quoted(model)}'"
    return all_pages(partial(mlflow.search_model_versions, wanted))


def all_pages(search: Callable[..., PagedList[Found]]) -> Iterator[Found]:
    """Everything that one of MLflow's searches finds."""
    token: str | None = None
    while token != "":
        page = search(page_token=token)
        yield from page
        token = page.token or ""


def refusal(uri: str, reason: str) -> ServiceError:
    return ServiceError(
        f"the model registry at {uri} cannot be asked which artifacts it needs: {reason}; none was marked or swept",
        subject=uri,
        next_step="start it or correct MLFLOW_TRACKING_URI; gc --no-registry if this store's artifacts are in none",
    )
