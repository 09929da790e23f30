"""From the events of partitions that arrived to runs of a DAG, one for each partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import DagRunTriggerException

from plugins.triggers.arrivals import STARTED

if TYPE_CHECKING:
    from airflow.sdk import Context


class ArrivedOperator(BaseOperator):
    """Hands on the names of the partitions that this run was started for."""

    def execute(self, context: Context) -> list[str]:
        """Each once and in order, however often it was announced."""
        events = [event for some in context["triggering_asset_events"].values() for event in some]
        return sorted({name for event in events for name in event.extra["payload"]["partitions"]})


class StartRunOperator(BaseOperator):
    """Starts another DAG for a partition, once: the run's name says which, and Airflow keeps two of a name apart.

    The partition is given as ``ingest.partition``: Airflow 3.3 drops the partition key of a run that a task starts.
    """

    template_fields: Sequence[str] = ("partition",)

    def __init__(self, *, starts: str, partition: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.starts = starts
        self.partition = partition

    def execute(self, context: Context) -> NoReturn:  # noqa: ARG002 (Airflow's signature)
        """By Airflow's signal for it: its own operator takes longer to import than a DAG file may take in all."""
        raise DagRunTriggerException(
            trigger_dag_id=self.starts,
            dag_run_id=run_id_of(self.partition),
            conf={"overrides": {"ingest.partition": self.partition}},
            reset_dag_run=False,
            skip_when_already_exists=True,
            wait_for_completion=False,
            allowed_states=[],
            failed_states=[],
            poke_interval=0,
            deferrable=False,
            note=f"The partition {self.partition} arrived.",
        )


class RememberOperator(BaseOperator):
    """Writes into the state of its only inlet, the asset, which partitions need not be announced any more."""

    template_fields: Sequence[str] = ("partitions",)

    def __init__(self, *, partitions: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.partitions = partitions

    def execute(self, context: Context) -> None:
        """One run of its DAG at a time, or two would forget each other's."""
        state = context["asset_state_store"]
        before: Any = state.get(STARTED) or ()
        state.set(STARTED, sorted({*before, *self.partitions}))


def run_id_of(partition: str) -> str:
    """Name of the run for a partition, in the letters that Airflow allows."""
    return f"arrival__{quote(partition, safe='').replace('%', '~')}"
