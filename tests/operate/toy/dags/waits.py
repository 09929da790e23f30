"""A pipeline of one stage that waits."""

from airflow.sdk import dag

from plugins.operators.stage import StageOperator


@dag(schedule=None)
def waits():
    StageOperator(pipeline=__file__, stage="waits")


waits()
