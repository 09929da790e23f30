"""Runs in MLflow: one parent per pipeline run, one child per stage, found again by tags when something is retried.

MLflow is imported where it is used: it takes seconds, and most of the time nobody needs it.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.core.errors import ServiceError
from tasks.core.store import VAR

if TYPE_CHECKING:
    from mlflow.entities import Metric, Run
    from mlflow.tracking import MlflowClient

MAX_PARAM_CHARS = 500
"""The smallest limit among MLflow's stores; longer values are cut here and whole in the ``config.json`` artifact."""
MAX_BATCH = 500
PARENT, STAGE, RUN, CACHED = "mlflow.parentRunId", "headrace.stage", "headrace.run", "headrace.cached"
ATTEMPT = "headrace.attempt_ms"
"""When the newest attempt of a stage began: what an older one left behind is written later, but says no more how the
stage ended. It rises from attempt to attempt, whatever the clock does (:func:`tasks.core.spool.rising_ms`)."""


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """The pipeline run a stage belongs to. Without a pipeline nothing is tracked."""

    pipeline: str = ""
    run_id: str = ""
    mlflow_run_id: str = ""
    """The parent run."""


def tracking_uri() -> str:
    """``MLFLOW_TRACKING_URI``, else a SQLite file under ``var/``."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{VAR}/mlflow/mlflow.db"


def warn(line: str) -> None:
    """Say that tracking is in trouble; once per event, on the stage's log."""
    print(f"warning: MLflow: {line}", file=sys.stderr, flush=True)


def now_ms() -> int:
    return int(time.time() * 1000)


def client() -> MlflowClient:
    """A client of the tracking server or file.

    Raises:
        ServiceError: when it cannot be reached.
    """
    uri = tracking_uri()
    if uri.startswith("sqlite:///"):
        Path(uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    try:
        return MlflowClient(uri)
    except (MlflowException, OSError) as error:
        raise ServiceError(f"MLflow at {uri} cannot be used: {error}", next_step="check MLFLOW_TRACKING_URI") from error


def experiment_of(mlflow: MlflowClient, name: str) -> str:
    """Id of the experiment of a pipeline, made on first use; two processes may race for it."""
    from mlflow.exceptions import MlflowException

    found = mlflow.get_experiment_by_name(name)
    if found is None:
        location = f"file://{VAR}/mlflow/artifacts/{name}" if tracking_uri().startswith("sqlite:") else None
        try:
            return str(mlflow.create_experiment(name, artifact_location=location))
        except MlflowException:
            found = mlflow.get_experiment_by_name(name)
            if found is None:
                raise
    return str(found.experiment_id)


def open_run(
    mlflow: MlflowClient, run: RunContext, stage: str, tags: Mapping[str, str], at_ms: int | None = None
) -> Run:
    """The run of a pipeline run (``stage`` empty) or of one of its stages; found again by a retry.

    A stage whose pipeline run could not be opened in time finds or opens it now. ``at_ms`` is when the
    attempt began; what is no attempt of a stage comes after all attempts there were.
    """
    experiment = experiment_of(mlflow, run.pipeline)
    wanted = f"tags.`{RUN}` = '{quoted(run.run_id)}' and tags.`{STAGE}` = '{quoted(stage)}'"
    found = mlflow.search_runs([experiment], wanted, max_results=1)
    began_ms = at_ms or max([now_ms(), *(attempt_of(one) + 1 for one in found)])
    if found:
        run_id = found[0].info.run_id
        if is_newest(found[0], began_ms):
            mlflow.update_run(run_id, status="RUNNING")
            mlflow.set_tag(run_id, ATTEMPT, str(began_ms))
        return mlflow.get_run(run_id)
    parent = {PARENT: run.mlflow_run_id or open_run(mlflow, run, "", {}).info.run_id} if stage else {}
    own = {RUN: run.run_id, STAGE: stage, ATTEMPT: str(began_ms), "mlflow.source.name": f"dags/{run.pipeline}.py"}
    return mlflow.create_run(experiment, tags={**own, **parent, **tags}, run_name=stage or run.run_id)


def is_newest(run: Run, at_ms: int) -> bool:
    """Whether nobody who began later has taken the run."""
    return attempt_of(run) <= at_ms


def attempt_of(run: Run) -> int:
    """When the newest attempt began that has taken the run."""
    return int(run.data.tags.get(ATTEMPT, "0"))


def end_run(mlflow: MlflowClient, run_id: str, status: str, at_ms: int) -> None:
    """Say how an attempt ended, unless a later one has taken the run."""
    if is_newest(mlflow.get_run(run_id), at_ms):
        mlflow.set_terminated(run_id, status)


def quoted(text: str) -> str:
    """A value inside a search filter; MLflow has no escape for its quote, so a run id may not hold one."""
    return re.sub(r"['\"`\\]", "_", text)


def url_of(run: Run) -> str:
    """Where a browser finds a run."""
    base = os.environ.get("MLFLOW_UI_URL", "http://127.0.0.1:5000")
    return f"{base}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"


def open_parent(pipeline: str, run_id: str) -> dict[str, str]:
    """Open the run that the stages of one pipeline run become children of.

    A tracker that is down does not stop the pipeline: the ids are empty then, and a warning is printed.
    """
    from mlflow.exceptions import MlflowException

    try:
        run = open_run(client(), RunContext(pipeline=pipeline, run_id=run_id), "", {})
    except (MlflowException, ServiceError, OSError) as error:
        warn(f"the pipeline run is not tracked: {error}")
        return {"mlflow_run_id": "", "mlflow_url": ""}
    return {"mlflow_run_id": run.info.run_id, "mlflow_url": url_of(run)}


def settle_parent(mlflow: MlflowClient, run: RunContext) -> None:
    """End a pipeline run that only its children opened, because MLflow was away when it began: nobody else will."""
    if run.mlflow_run_id:
        return
    parent = open_run(mlflow, run, "", {})
    children = mlflow.search_runs([parent.info.experiment_id], f"tags.`{PARENT}` = '{quoted(parent.info.run_id)}'")
    failed = any(one.info.status in ("FAILED", "KILLED") for one in children)
    mlflow.set_terminated(parent.info.run_id, "FAILED" if failed else "FINISHED")


def close(run: RunContext, status: str, cached: Iterable[Mapping[str, Any]]) -> None:
    """End a pipeline run: children for the cached stages, anything left open closed, then the parent."""
    from mlflow.exceptions import MlflowException

    if not run.mlflow_run_id:
        return
    try:
        _close(client(), run, status, cached)
    except (MlflowException, ServiceError, OSError) as error:
        warn(f"the pipeline run was not closed: {error}")


def _close(mlflow: MlflowClient, run: RunContext, status: str, cached: Iterable[Mapping[str, Any]]) -> None:
    for outcome in cached:
        child = open_run(mlflow, run, outcome["stage"], {CACHED: "true", "headrace.made_by": outcome["mlflow_run_id"]})
        log_result(mlflow, child.info.run_id, outcome["result"])
        mlflow.set_terminated(child.info.run_id, "FINISHED")
    experiment = experiment_of(mlflow, run.pipeline)
    for one in mlflow.search_runs([experiment], f"tags.`{PARENT}` = '{quoted(run.mlflow_run_id)}'"):
        if one.info.status == "RUNNING":
            mlflow.set_terminated(one.info.run_id, "KILLED")
    mlflow.set_terminated(run.mlflow_run_id, status)


def log_result(mlflow: MlflowClient, run_id: str, result: Mapping[str, Any]) -> None:
    """A stage's result on its run."""
    metrics = [metric_of(name, value, None, now_ms()) for name, value in numbers_in(result)]
    for start in range(0, len(metrics), MAX_BATCH):
        mlflow.log_batch(run_id, metrics=metrics[start : start + MAX_BATCH])
    mlflow.log_dict(run_id, dict(result), "result.json")


def metric_of(name: str, value: float, step: int | None, at_ms: int) -> Metric:
    from mlflow.entities import Metric

    return Metric(metric_name(name), value, at_ms, step or 0)


def metric_name(name: str) -> str:
    """A name MLflow accepts: letters, digits, ``_ - . / : space``; at most 250 characters."""
    return re.sub(r"[^\w\-./: ]", "_", name, flags=re.ASCII)[:250]


def numbers_in(values: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Every number in nested mappings, with slashes between the names."""
    if isinstance(values, Mapping):
        for key, inner in values.items():
            yield from numbers_in(inner, f"{name}/{key}" if name else str(key))
    elif isinstance(values, int | float):
        yield name, float(values)


def params_in(values: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Every knob as a short text, nested ones with dotted names; lists as JSON."""
    if isinstance(values, Mapping) and (values or not name):
        for key, inner in values.items():
            yield from params_in(inner, f"{name}.{key}" if name else str(key))
    else:
        text = values if isinstance(values, str) else json.dumps(values, ensure_ascii=False)
        yield metric_name(name), text if len(text) <= MAX_PARAM_CHARS else f"{text[: MAX_PARAM_CHARS - 1]}…"


def log_params(mlflow: MlflowClient, run_id: str, params: Mapping[str, Any]) -> None:
    """The knobs as parameters, and whole as an artifact. A parameter of a continued run cannot be changed."""
    from mlflow.entities import Param

    known = mlflow.get_run(run_id).data.params
    fresh = [Param(name, text) for name, text in params_in(params) if name not in known]
    for begin in range(0, len(fresh), 100):
        mlflow.log_batch(run_id, params=fresh[begin : begin + 100])
    mlflow.log_dict(run_id, dict(params), "config.json")
