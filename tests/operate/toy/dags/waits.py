"""A pipeline of one stage that waits."""

from functools import partial

from airflow.sdk import dag

from plugins.operators.stage import StageOperator
from plugins.params import params_of

step = partial(StageOperator, pipeline=__file__)


@dag(schedule=None, params=params_of(__file__))
def waits():
    step(stage="waits")


waits()
