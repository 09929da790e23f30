"""The model in service: the version of a registered model that has the alias ``champion``.

Its version carries where its artifact lies and, when a scheduled run made it, the partition it has learned up to.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.core import mlflow_runs
from tasks.core.artifact import Artifact, name_of, published
from tasks.core.errors import ConfigError, DataError, ServiceError
from tasks.core.registered import ARTIFACT_TAG, versions
from tasks.core.store import Store

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.tracking import MlflowClient

ALIAS = "champion"
PREVIOUS = "previous"
"""Alias of the version that the champion replaced, for going back."""
PARTITION_TAG = "headrace.partition"


@dataclass(frozen=True)
class Champion:
    """A registered version and what it was registered for."""

    model: str
    version: str
    uri: str
    """The artifact that was registered."""
    partition: str = ""
    """The newest partition it has learned from; empty when no scheduled run made it."""


def champion_of(model: str) -> Champion | None:
    """The champion of a registered model; None when there is no such model or it has none.

    Raises:
        DataError: its version does not say where its artifact lies.
        ServiceError: the registry cannot be reached.
    """
    with registry() as client:
        version = aliased(client, model, ALIAS)
    if version is None:
        return None
    if ARTIFACT_TAG not in version.tags:
        raise DataError(
            f"version {version.version} of {model} does not say which artifact it is (tag {ARTIFACT_TAG})",
            subject=f"models:/{model}@{ALIAS}",
            next_step="give the alias to a version that Headrace registered",
        )
    return Champion(model, str(version.version), version.tags[ARTIFACT_TAG], version.tags.get(PARTITION_TAG, ""))


def crown(model: str, uri: str, partition: str = "") -> Champion:
    """Give the alias to the version of an artifact; the one that had it becomes ``previous``.

    Raises:
        DataError: the artifact is not registered under that name.
        ServiceError: the registry cannot be reached.
    """
    with registry() as client:
        found = [one for one in versions(client, model) if names_same(one.tags.get(ARTIFACT_TAG, ""), uri)]
        if not found:
            raise DataError(
                f"{uri} is not registered as {model}",
                subject=uri,
                next_step="register it: run the stage package, which makes it the challenger",
            )
        version = max(found, key=lambda one: int(one.version))
        before = aliased(client, model, ALIAS)
        client.set_model_version_tag(model, version.version, PARTITION_TAG, partition)
        if before is not None and before.version != version.version:
            client.set_registered_model_alias(model, PREVIOUS, before.version)
        client.set_registered_model_alias(model, ALIAS, version.version)
    return Champion(model, str(version.version), version.tags[ARTIFACT_TAG], partition)


def ancestor(store: Store, uri: str, stage: str) -> Artifact:
    """The nearest artifact of a stage among what an artifact was made from, itself included.

    Raises:
        DataError: there is none, or a link of the chain is no longer in the store.
    """
    front, seen = [uri], set[str]()
    while front:
        names = list(dict.fromkeys(name for one in front if (name := name_of(one)) not in seen))
        seen.update(names)
        found = [published(store, str(store.root / name)) for name in names]
        for one in found:
            if one.record.identity.stage == stage:
                return one
        front = [source for one in found for source in one.record.inputs.values()]
    raise DataError(
        f"nothing that {uri} was made from is a {stage}",
        subject=uri,
        next_step="make a champion by a pipeline with one",
    )


@contextmanager
def registry() -> Iterator[MlflowClient]:
    """A client of the model registry; what goes wrong with it is said as a missing service."""
    from mlflow.exceptions import MlflowException

    try:
        yield mlflow_runs.client()
    except (MlflowException, OSError) as error:
        uri = mlflow_runs.tracking_uri()
        raise ServiceError(
            f"the model registry at {uri} does not answer: {error}",
            subject=uri,
            next_step="start the MLflow server or correct MLFLOW_TRACKING_URI, then run the same command",
        ) from error


def aliased(client: MlflowClient, model: str, alias: str) -> ModelVersion | None:
    """The version behind an alias; None when there is no such alias or model."""
    from mlflow.exceptions import MlflowException

    try:
        return client.get_model_version_by_alias(model, alias)
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None
        raise


def names_same(tagged: str, uri: str) -> bool:
    """Whether two URIs, or paths inside an artifact, name the same key, wherever their stores lie."""
    try:
        return name_of(tagged) == name_of(uri)
    except DataError:
        return False


def needed_champion(model: str) -> Champion:
    """The champion of a registered model.

    Raises:
        ConfigError: there is none.
    """
    found = champion_of(model)
    if found is None:
        raise ConfigError(
            f"the registered model {model} has no champion to go on from",
            next_step=f"make the first one by hand: python -m tasks promote URI, with the artifact of its package "
            f"(python -m tasks list shows them), or give a version of {model} the alias {ALIAS} in MLflow",
        )
    return found
