"""Starts `nightly` for each partition as soon as it has arrived.

A partition is a folder under `[headrace] arrivals_prefix`, and has arrived when it holds `_SUCCESS`. Each is started
once, under the run id `arrival__<partition>`; a run that is there already is not started again. Runs wait while
`nightly` is paused, and follow each other.
"""

from airflow.sdk import dag

from plugins.operators.arrivals import ArrivedOperator, RememberOperator, StartRunOperator
from plugins.triggers.arrivals import watched

partitions = watched()


@dag(schedule=[partitions], catchup=False, max_active_runs=1, doc_md=__doc__, tags=["headrace"])
def arrivals():
    arrived = ArrivedOperator(task_id="arrived")
    started = StartRunOperator.partial(
        task_id="start", starts="nightly", map_index_template="{{ task.partition }}", max_active_tis_per_dag=1
    ).expand(partition=arrived.output)
    started >> RememberOperator(
        task_id="remember", partitions=arrived.output, inlets=[partitions], trigger_rule="none_failed"
    )


if partitions:
    arrivals()
