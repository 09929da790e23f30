"""Reading training samples from a local disk: our shards beside ``datasets``, Arrow at random and Parquet in a row.

All read the same 60 million tokens for some seconds each, twice, turn by turn; see ``_token_readers.py``. The peer is
the fastest of four ways to use ``datasets``: two at random through a ``DataLoader``, and a stream as its manual has it
and as one would write it by hand. What each holds in memory is printed too; ours may not grow with the tokens.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from _lifecycle import conclude
from _token_readers import (
    BATCH,
    Batches,
    as_documented,
    best_of_two,
    by_hand,
    read_in_random_order,
    stream_of,
    write_arrow,
    write_ours,
    write_parquet,
)
from datasets import Dataset, concatenate_datasets
from torch.utils.data import DataLoader
from upath import UPath

from tasks.lm.token_shards import TokenShards

FLOOR, COPIES, LIMIT_S, MAX_MB = 3.0, 50, 4.0, 64
Way = Callable[[], Batches]


def at_random(folder: Path, form: str) -> Batches:
    files = [Dataset.from_file(str(file)) for file in sorted(folder.glob("*.arrow"))]
    loader = DataLoader(concatenate_datasets(files).with_format(form), batch_size=BATCH, shuffle=True)
    return (batch["input_ids"] if form == "torch" else batch["input_ids"].to(torch.int64) for batch in loader)


def ways(folder: Path) -> dict[str, Way]:
    parquet = f"{folder}/parquet/*.parquet"
    return {
        "ours, at random": lambda: read_in_random_order(folder / "ours"),
        "datasets, Arrow at random, torch": lambda: at_random(folder / "arrow", "torch"),
        "datasets, Arrow at random, numpy": lambda: at_random(folder / "arrow", "numpy"),
        "datasets, Parquet stream, torch": lambda: as_documented(stream_of("parquet", parquet)),
        "datasets, Parquet stream, by hand": lambda: by_hand(stream_of("parquet", parquet)),
    }


def write(folder: Path) -> None:
    tokens_per_s, shards = write_ours(UPath(folder / "ours"), COPIES), TokenShards(folder / "ours", "train")
    print(f"{shards.num_tokens:,} tokens; ours written at {tokens_per_s / 1e6:.0f} million a second", flush=True)
    write_arrow(shards, UPath(folder / "arrow"))
    write_parquet(shards, UPath(folder / "parquet"))


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        best = best_of_two(ways(Path(name)), LIMIT_S, by="tokens_per_cpu_s")
    for way, one in best.items():
        print(f"{way:36}{one.tokens_per_cpu_s / 1e6:8.1f} million tokens per CPU-second {one.memory_mb:8.0f} MB")
    mine, *others = best.values()
    assert mine.memory_mb < MAX_MB, f"our reader holds {mine.memory_mb:.0f} MB"
    peer = max(one.tokens_per_cpu_s for one in others)
    return conclude("shard loader, local", mine.tokens_per_cpu_s, peer, floor=FLOOR, unit="tokens per CPU-second")


if __name__ == "__main__":
    sys.exit(main())
