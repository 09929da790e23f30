"""Documents to token ids: our encoder beside ``datasets.map`` with the same tokenizer, in batches.

Both start from the sample's documents in memory, several copies of them, and end with the same ids, to the last.
Counted in CPU-seconds of this process and of its threads, so that another load on the machine does not change the
ratio. Ours includes the check that it makes on a sample of the documents.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from _lifecycle import artifacts, conclude
from datasets import Dataset, disable_progress_bars
from tokenizers import Tokenizer

from tasks.core.documents import read_table
from tasks.lm.encoding import load_tokenizer
from tasks.lm.fast_encoding import Encoder

FLOOR, NUM_BYTES, BATCH = 4.0, 40_000_000, 1000


def ours(texts: pa.ChunkedArray, tokenizer: Tokenizer) -> np.ndarray:
    encoder = Encoder(tokenizer)
    assert not encoder.why_slow
    batches = (texts.slice(at, BATCH).to_pylist() for at in range(0, len(texts), BATCH))
    return np.concatenate([ids for batch in batches for ids in encoder.encode_batch(batch)])


def peer(texts: pa.ChunkedArray, tokenizer: Tokenizer) -> np.ndarray:
    def encode(batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        return {"ids": [one.ids for one in tokenizer.encode_batch_fast(batch["text"], add_special_tokens=False)]}

    with tempfile.TemporaryDirectory() as folder:
        dataset = Dataset(pa.table({"text": texts}))
        mapped = dataset.map(
            encode, batched=True, batch_size=BATCH, remove_columns=["text"], cache_file_name=f"{folder}/ids.arrow"
        )
        return pc.list_flatten(mapped.data["ids"]).to_numpy()


def cpu_seconds(function: Callable[..., np.ndarray], *given: object) -> tuple[float, np.ndarray]:
    started = time.process_time()
    found = function(*given)
    return time.process_time() - started, found


def main() -> int:
    disable_progress_bars()
    made = artifacts("tokenizer")
    once = read_table(made["dedup"].path, ["text"])["text"]
    copies = -(-NUM_BYTES // pc.sum(pc.binary_length(once)).as_py())
    texts = pa.chunked_array([chunk for _ in range(copies) for chunk in once.chunks])
    tokenizer = load_tokenizer(made["tokenizer"].path)
    print(f"{len(texts):,} documents, {pc.sum(pc.binary_length(texts)).as_py() / 1e6:.0f} MB")
    pairs = [(cpu_seconds(ours, texts, tokenizer), cpu_seconds(peer, texts, tokenizer)) for _ in range(2)]
    assert all(np.array_equal(one[1], other[1]) for one, other in pairs), "the ids differ"
    our_s, peer_s = (min(pair[side][0] for pair in pairs) for side in (0, 1))
    num_tokens = len(pairs[0][0][1])
    return conclude("tokenising", num_tokens / our_s, num_tokens / peer_s, floor=FLOOR, unit="tokens per CPU-second")


if __name__ == "__main__":
    sys.exit(main())
