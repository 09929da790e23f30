"""A stage as a task of Airflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plugins.links.artifact import ArtifactLink
from plugins.operators.command import TasksOperator
from plugins.operators.pins import current_pin
from tasks.core.drift import OnDrift
from tasks.core.errors import DataError

if TYPE_CHECKING:
    from airflow.sdk import Context

HANDED_ON = ("stage", "uri", "cached", "reason", "result", "mlflow_run_id", "mlflow_url")
"""What a task hands to the next through XCom: where its artifact is, and the few numbers that describe it."""


class StageOperator(TasksOperator):
    """Makes one stage's artifact, or finds it.

    ``inputs`` maps each input of the stage's ``run`` to the ``.output`` of the task that makes it::

        clean = step(stage="clean", inputs={"documents": raw.output})

    ``on_drift`` says what to do with an artifact that was made before our source changed.
    """

    operator_extra_links = (*TasksOperator.operator_extra_links, ArtifactLink())
    template_fields: Sequence[str] = ("inputs",)
    ui_color = "#e8f1f5"

    def __init__(
        self, *, stage: str, inputs: Mapping[str, Any] | None = None, on_drift: OnDrift = "warn", **kwargs: Any
    ) -> None:
        kwargs.setdefault("task_id", stage)
        super().__init__(**kwargs)
        self.stage = stage
        self.inputs = inputs or {}
        self.on_drift = on_drift
        self.pin_task_id = current_pin()
        self.artifact_uri = ""

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the stage. The answer goes to XCom."""
        spec = self.spec(context)
        outcome = self.run_command(["run", self.stage], spec, context)
        self.artifact_uri = outcome["uri"]
        if outcome["cached"]:
            self.log.info("to make it again: trigger with force = [%r], or clear this task after a change", self.stage)
        return {name: outcome[name] for name in HANDED_ON}

    def spec(self, context: Context) -> dict[str, Any]:
        """The complete request: no worker needs the YAML or the DAG file to understand it."""
        pins = self.pins(context)
        forced = context["params"].get("force", [])
        return {
            "stage": self.stage,
            "config": self.configs(context)[self.stage] | pins.get("knobs", {}).get(self.stage, {}),
            "inputs": self.input_uris(context),
            "force": self.stage in forced or "all" in forced,
            "on_drift": self.on_drift,
            "fingerprint": pins.get("fingerprints", {}).get(self.stage),
            "run": {
                "pipeline": self.pipeline_name,
                "run_id": context["run_id"],
                "mlflow_run_id": pins.get("mlflow_run_id", ""),
            },
        }

    def pins(self, context: Context) -> dict[str, Any]:
        """What the pin task saw; nothing in a DAG without one."""
        pins: dict[str, Any] = (context["ti"].xcom_pull(task_ids=self.pin_task_id) if self.pin_task_id else None) or {}
        self.mlflow_url = str(pins.get("mlflow_url", ""))
        return pins

    def input_uris(self, context: Context) -> dict[str, str]:
        """The artifacts that the tasks before this one handed on."""
        missing = [name for name, handed_on in self.inputs.items() if not handed_on]
        if missing:
            error = DataError(
                f"no artifact was handed on for: {', '.join(missing)}",
                subject=", ".join(missing),
                next_step="run the tasks before this one; marking a task as success makes no artifact",
            )
            raise self.refused(error, context)
        return {name: handed_on["uri"] for name, handed_on in self.inputs.items()}
