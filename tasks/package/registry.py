"""The bento in MLflow's model registry, under the alias ``challenger``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.core import mlflow_runs, tracking
from tasks.core.errors import ServiceError
from tasks.core.registered import versions

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

ALIAS = "challenger"
EXPERIMENT = "package"
"""Where a registration outside any pipeline run opens a run of its own."""
DIGEST = "headrace.bento_sha256"
FOLDER = "bento"


@dataclass(frozen=True)
class Registration:
    """Where a bento is in the registry."""

    name: str
    version: str
    alias: str
    source: str
    """URI of the registered file in MLflow's artifact store."""
    reused: bool
    """Whether the same bytes were registered before; the alias then moved back to that version."""


def register(name: str, bento: Path, digest: str, tags: Mapping[str, str]) -> Registration:
    """Register a bento file as a new version, or find the version with the same bytes, and make it the challenger.

    Raises:
        ServiceError: when the tracking server cannot be reached or refuses.
    """
    from mlflow.exceptions import MlflowException

    uri = mlflow_runs.tracking_uri()
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
    try:
        return _register(mlflow_runs.client(), name, bento, {**tags, DIGEST: digest})
    except (MlflowException, OSError) as error:
        raise ServiceError(
            f"the model registry at {uri} did not take {name}: {error}",
            subject=uri,
            next_step="start the MLflow server or correct MLFLOW_TRACKING_URI, then run the same command",
        ) from error


def _register(client: MlflowClient, name: str, bento: Path, tags: Mapping[str, str]) -> Registration:
    known = _versions(client, name)
    reused = known.get(tags[DIGEST])
    if reused is not None:
        version, source = reused
    else:
        version, source = _new_version(client, name, bento, tags)
    client.set_registered_model_alias(name, ALIAS, version)
    return Registration(name, version, ALIAS, source, reused is not None)


def _versions(client: MlflowClient, name: str) -> dict[str, tuple[str, str]]:
    """Number and source of each registered version by the digest of its bento; makes the model on first use."""
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    return {
        one.tags[DIGEST]: (str(one.version), str(one.source)) for one in versions(client, name) if DIGEST in one.tags
    }


def _new_version(client: MlflowClient, name: str, bento: Path, tags: Mapping[str, str]) -> tuple[str, str]:
    """Log the file to the stage's run, or to a run of its own, and register it from there."""
    run_id = tracking.current_run_id()
    own = not run_id
    if own:
        run_id = client.create_run(mlflow_runs.experiment_of(client, EXPERIMENT), run_name=bento.stem).info.run_id
    client.log_artifact(run_id, str(bento), FOLDER)
    base = client.get_run(run_id).info.artifact_uri
    source = f"{base}/{FOLDER}/{bento.name}"
    version = client.create_model_version(name, source, run_id=run_id, tags=dict(tags))
    if own:
        client.set_terminated(run_id)
    return str(version.version), source
