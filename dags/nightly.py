"""Every night: what arrived since the champion learned, learned by it, and kept if that made it better.

One run is for one date. It reads the partitions that came after the champion's and up to its own, so what a rejected or
a missed night brought is not lost; leaves out what was there before; mixes the rest with older text, so that nothing is
forgotten; and trains on from the champion. The result becomes the champion if it is not worse on held-out text and no
older. A night that brought nothing is skipped. To fill a gap, or to try another rule on past nights:

    airflow backfill create --dag-id nightly --from-date 2026-11-01 --to-date 2026-11-03T23:00 --max-active-runs 1
"""

from functools import partial

from airflow.sdk import CronPartitionTimetable, dag

from plugins.operators.pins import pinned
from plugins.operators.stage import StageOperator
from plugins.params import params_of

step = partial(StageOperator, pipeline=__file__)
at_two = CronPartitionTimetable("0 2 * * *", timezone="UTC", run_offset=-1, key_format="%Y-%m-%d")  # of yesterday


@dag(schedule=at_two, catchup=False, max_active_runs=1, params=params_of(__file__), doc_md=__doc__, tags=["headrace"])
def nightly():
    with pinned(pipeline=__file__) as champion:
        # What arrived, without what was there before.
        raw = step(stage="ingest")
        clean = step(stage="clean", inputs={"documents": raw.output})
        safe = step(stage="redact", inputs={"documents": clean.output})
        unique = step(stage="dedup", inputs={"documents": safe.output, "known": champion["dedup"]})

        # In the champion's own tokens, with some of what it knows, so that it does not forget.
        shards = step(
            stage="shards",
            inputs={"documents": unique.output, "tokenizer": champion["tokenizer"], "known": champion["dedup"]},
        )

        # The champion learns on, and is compared with what it was.
        model = step(
            stage="train",
            inputs={"shards": shards.output, "tokenizer": champion["tokenizer"], "initial": champion["train"]},
        )
        worth = step(
            stage="evaluate",
            inputs={
                "model": model.output,
                "shards": shards.output,
                "documents": unique.output,
                "champion": champion["train"],
            },
        )

        # What answers well and is better takes its place.
        small = step(stage="compress", inputs={"model": model.output, "shards": shards.output})
        bento = step(stage="package", inputs={"compressed": small.output, "evaluation": worth.output})
        smoke = step(stage="smoke", inputs={"bento": bento.output, "compressed": small.output})
        smoke >> step(
            stage="promote", inputs={"bento": bento.output, "evaluation": worth.output}, max_active_tis_per_dag=1
        )


nightly()
