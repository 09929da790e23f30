"""The whole life of a small language model on the shipped sample: from raw text to a service that answers.

Every task makes one artifact and hands its address to the next. A task whose artifact is already there says so and
ends. Turn a knob on the trigger form, or in `lifecycle.yaml`, and only what depends on it runs again.
"""

from functools import partial

from airflow.sdk import dag

from plugins.operators.pins import pinned
from plugins.operators.stage import StageOperator
from plugins.params import params_of

step = partial(StageOperator, pipeline=__file__)


@dag(schedule=None, params=params_of(__file__), doc_md=__doc__, tags=["headrace", "ci"])
def lifecycle():
    with pinned(pipeline=__file__):
        # From raw text to documents worth learning from.
        raw = step(stage="ingest")
        clean = step(stage="clean", inputs={"documents": raw.output})
        safe = step(stage="redact", inputs={"documents": clean.output})
        unique = step(stage="dedup", inputs={"documents": safe.output})

        # From documents to tokens.
        tokenizer = step(stage="tokenizer", inputs={"documents": unique.output})
        shards = step(stage="shards", inputs={"documents": unique.output, "tokenizer": tokenizer.output})

        # From tokens to a model, and what it is worth.
        model = step(stage="train", inputs={"shards": shards.output, "tokenizer": tokenizer.output})
        worth = step(
            stage="evaluate",
            inputs={"model": model.output, "shards": shards.output, "documents": unique.output},
        )

        # From a model to a service that runs anywhere.
        small = step(stage="compress", inputs={"model": model.output, "shards": shards.output})
        bento = step(stage="package", inputs={"compressed": small.output, "evaluation": worth.output})
        step(stage="smoke", inputs={"bento": bento.output, "compressed": small.output})


lifecycle()
