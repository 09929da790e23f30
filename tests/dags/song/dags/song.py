"""A pipeline of two toy stages."""

from functools import partial

from airflow.sdk import dag

from plugins.operators.pins import pinned
from plugins.operators.stage import StageOperator
from plugins.params import params_of

step = partial(StageOperator, pipeline=__file__)


@dag(schedule=None, params=params_of(__file__), doc_md=__doc__)
def song():
    with pinned(pipeline=__file__):
        tune = step(stage="hum")
        echo = step(stage="echo", inputs={"tune": tune.output})  # noqa: F841 (a test adds a line that uses it)


song()
