"""Reading training samples from S3: our shards fetched and mapped, beside ``datasets`` streaming from the same server.

A real S3 server on loopback, or the one that ``AWS_ENDPOINT_URL`` names with the bucket ``HEADRACE_TEST_BUCKET``. All
read the same 60 million tokens to the end. Ours counts from before the first byte is fetched, several shards at a time
into an empty cache, with their digests checked, and then reads at random; ``datasets`` reads rows in order from Parquet
and from Arrow, as its manual has it and as one would write it by hand. Counted by the clock, since waiting is what this
is about.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from _lifecycle import conclude
from _token_readers import (
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
from upath import UPath

from tasks.core.artifact import Identity, Record, content_digest, files_of, publish
from tasks.core.store import Store, open_store
from tasks.core.transfer import local_copy
from tasks.lm.token_shards import TokenShards
from tests.servers.seaweedfs import s3_server_in

FLOOR, COPIES, LIMIT_S, MAX_MB = 2.0, 50, 60.0, 160


@contextmanager
def bucket(folder: Path) -> Iterator[UPath]:
    """A place on an S3 server to write to."""
    if "AWS_ENDPOINT_URL" in os.environ:
        yield UPath(f"s3://{os.environ['HEADRACE_TEST_BUCKET']}/shard-loader-{time.time_ns()}")
        return
    with s3_server_in(folder) as server, patch.dict(os.environ, server.environment()):
        yield UPath(f"s3://{server.bucket}/shard-loader")


def ours(artifact: UPath) -> Batches:
    with (
        tempfile.TemporaryDirectory() as cache,
        patch.dict(os.environ, {"HEADRACE_CACHE": cache}),
        local_copy(artifact) as folder,
    ):
        yield from read_in_random_order(folder)


def published(store: Store) -> UPath:
    """Our shards as an artifact, whose record says what every file is."""
    identity = Identity(stage="shards", version=1, knobs={}, inputs={})
    attempt = store.new_attempt("shards", identity.key)
    write_ours(attempt, COPIES)
    files = files_of(attempt)
    record = Record(identity, attempt.name, content_digest(attempt, files), files, result={})
    return publish(store, record, after=0, adopt=True).path


def ways(remote: UPath, artifact: UPath) -> dict[str, Callable[[], Batches]]:
    def streamed(kind: str, read: Callable[..., Batches]) -> Callable[[], Batches]:
        return lambda: read(stream_of(kind, f"{remote}/{kind}/*.{kind}"))

    return {
        "ours, at random": lambda: ours(artifact),
        "datasets, Parquet stream, torch": streamed("parquet", as_documented),
        "datasets, Parquet stream, by hand": streamed("parquet", by_hand),
        "datasets, Arrow stream, torch": streamed("arrow", as_documented),
        "datasets, Arrow stream, by hand": streamed("arrow", by_hand),
    }


def write(remote: UPath) -> UPath:
    """Write the tokens in all three forms; where ours are."""
    artifact = published(open_store(str(remote)))
    with local_copy(artifact) as folder:
        shards = TokenShards(folder, "train")
        print(f"{shards.num_tokens:,} tokens", flush=True)
        write_arrow(shards, remote / "arrow")
        write_parquet(shards, remote / "parquet")
    return artifact


def main() -> int:
    with tempfile.TemporaryDirectory() as server, bucket(Path(server)) as remote:
        artifact = write(remote)
        best = best_of_two(ways(remote, artifact), LIMIT_S, by="tokens_per_s")
    for way, one in best.items():
        print(f"{way:36}{one.tokens_per_s / 1e6:8.1f} million tokens a second {one.memory_mb:8.0f} MB")
    mine, *others = best.values()
    assert mine.memory_mb < MAX_MB, f"our reader holds {mine.memory_mb:.0f} MB"
    peer = max(one.tokens_per_s for one in others)
    return conclude("shard loader, S3", mine.tokens_per_s, peer, floor=FLOOR, unit="tokens a second")


if __name__ == "__main__":
    sys.exit(main())
