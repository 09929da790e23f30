"""The first and the last task of a DAG: what all the others see as the world, and the tidying up.

``pin`` looks once at everything that may change while the DAG runs (the source files, the partition it is for, the
champion and what that was made from) and hands on digests and addresses; later tasks refuse anything else, so a retry
sees what the first try saw. It is a plain task, not one of Airflow's setups: clearing a task clears its setups too, and
a cleared task must keep its pins. It also opens the parent run in MLflow; ``close``, a teardown, closes it and all that
was left open, and does not hide a failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from airflow.sdk import TaskInstanceState, XComArg

from plugins.operators.command import TasksOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

FAILED = {TaskInstanceState.FAILED, TaskInstanceState.UPSTREAM_FAILED}

_pin: ContextVar[str | None] = ContextVar("pin", default=None)


def current_pin() -> str | None:
    """Task id of the pin around the step that is being written; None outside of :func:`pinned`."""
    return _pin.get()


class PinnedChampion:
    """What the champion was made from: ``champion["dedup"]`` is an input for a step, as ``raw.output`` is."""

    def __init__(self, pin: PinOperator) -> None:
        self._pin = pin

    def __getitem__(self, stage: str) -> Any:
        """The nearest artifact of a stage among what the champion was made from, as pin resolves it."""
        self._pin.from_champion[stage] = None
        return XComArg(self._pin, key=champion_key(stage))


def champion_key(stage: str) -> str:
    """Name under which pin hands on one of the champion's artifacts."""
    return f"champion_{stage}"


@contextmanager
def pinned(*, pipeline: str) -> Iterator[PinnedChampion]:
    """Put every task of the block between ``pin`` and ``close``; the block gets the champion."""
    pin = PinOperator(task_id="pin", pipeline=pipeline)
    close = CloseOperator(task_id="close", pipeline=pipeline, pin_task_id=pin.task_id).as_teardown()
    dag = pin.dag
    outside = set(dag.task_ids)
    token = _pin.set(pin.task_id)
    try:
        yield PinnedChampion(pin)
    finally:
        _pin.reset(token)
    for task in [task for task in dag.tasks if task.task_id not in outside]:
        if not task.upstream_task_ids:
            pin >> task
        if not task.downstream_task_ids:
            task >> close


class PinOperator(TasksOperator):
    """Refuses wrong knobs before anything runs, takes the fingerprints, finds the champion, opens the parent run."""

    ui_color = "#f5efe0"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.from_champion: dict[str, None] = {}
        """Stages whose artifacts the DAG takes from the champion, in the order of the file."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Fingerprints and pinned knobs by stage, and the parent run; the champion's artifacts under keys of their own.

        Raises:
            AirflowSkipException: no new data has come.
        """
        spec = {
            "pipeline": self.pipeline_name,
            "run_id": context["run_id"],
            "configs": self.configs(context),
            "champion": list(self.from_champion),
            "partition": context.get("partition_key") or "",
        }
        pins = self.run_command(["pin"], spec, context)
        for stage, uri in pins["champion"].items():
            context["ti"].xcom_push(champion_key(stage), {"uri": uri})
        return pins


class CloseOperator(TasksOperator):
    """Closes the parent run in MLflow with the state of the DAG run."""

    ui_color = "#f5efe0"

    def __init__(self, *, pin_task_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pin_task_id = pin_task_id

    def execute(self, context: Context) -> None:
        """Close what pin opened, if it came to that."""
        request = self.closing_request(context)
        if request is None:
            self.log.info("nothing was opened, so nothing is closed")
            return
        self.run_command(["close"], request, context)

    def closing_request(self, context: Context) -> dict[str, Any] | None:
        """The parent run, how it ended, and the outcomes of its stages; None when pin opened no run."""
        pins = context["ti"].xcom_pull(task_ids=self.pin_task_id) or {}
        if not pins.get("mlflow_run_id"):
            return None
        self.mlflow_url = str(pins.get("mlflow_url", ""))
        states = self.task_states(context)
        return {
            "run": {
                "pipeline": self.pipeline_name,
                "run_id": context["run_id"],
                "mlflow_run_id": pins["mlflow_run_id"],
            },
            "status": "FAILED" if FAILED & set(states.values()) else "FINISHED",
            "outcomes": [one for one in context["ti"].xcom_pull(task_ids=sorted(states)) if one],
        }

    def task_states(self, context: Context) -> dict[str, str]:
        """State of every stage of this run, by task."""
        run_id = context["run_id"]
        states: dict[str, str] = context["ti"].get_task_states(dag_id=self.dag_id, run_ids=[run_id]).get(run_id, {})
        return {task_id: state for task_id, state in states.items() if task_id not in (self.task_id, self.pin_task_id)}
