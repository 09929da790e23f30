import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.core.errors import DataError
from tasks.lm.token_shards import TokenShards, sample_order

TOKENS = np.random.default_rng(0).integers(0, 60_000, 103)


def store(folder, tokens, *, shard_tokens=17, dtype="uint16"):
    """Write tokens as the shards of a training split, three documents of them, without the stage."""
    (folder / "train").mkdir()
    entries = []
    for start in range(0, len(tokens), shard_tokens):
        part, file = tokens[start : start + shard_tokens], f"train/shard-{len(entries):05d}.bin"
        (folder / file).write_bytes(part.astype(np.dtype(dtype).newbyteorder("<")).tobytes())
        entries.append({"file": file, "num_tokens": len(part)})
    ends = np.array([10, 60, len(tokens)])
    lengths = np.diff(ends, prepend=0)
    pq.write_table(pa.table({"num_tokens": lengths, "offset": ends - lengths}), folder / "train" / "documents.parquet")
    train = {"shards": entries, "num_tokens": len(tokens), "num_documents": 3, "num_bytes": 1000}
    empty = {"shards": [], "num_tokens": 0, "num_documents": 0, "num_bytes": 0}
    index = {"dtype": dtype, "vocab_size": 60_000, "eos_id": 0, "splits": {"train": train, "test": empty}}
    (folder / "index.json").write_text(json.dumps(index))
    return folder


@pytest.mark.parametrize("shard_tokens", [1, 7, 17, 102, 103, 500])
def test_windows_cross_shard_boundaries(tmp_path, shard_tokens):
    shards = TokenShards(store(tmp_path, TOKENS, shard_tokens=shard_tokens), "train")
    for start in range(len(TOKENS)):
        for length in (0, 1, 8, len(TOKENS) - start):
            if start + length <= len(TOKENS):
                np.testing.assert_array_equal(shards.window(start, length), TOKENS[start : start + length])


def test_tokens_come_as_int64_whatever_is_stored(tmp_path):
    wide = np.array([5, 70_000, 2**31], np.int64)
    shards = TokenShards(store(tmp_path, wide, dtype="uint32"), "train")
    assert shards.window(0, 3).dtype == np.int64
    assert shards.window(0, 3).tolist() == wide.tolist()


@pytest.mark.parametrize(("start", "length"), [(-1, 2), (100, 4), (104, 0), (0, -1)])
def test_a_window_outside_the_split_is_an_error(tmp_path, start, length):
    with pytest.raises(IndexError):
        TokenShards(store(tmp_path, TOKENS), "train").window(start, length)


@pytest.mark.parametrize("length", [1, 8, 34, 51, 102])
def test_every_token_but_the_first_is_a_target_once(tmp_path, length):
    shards = TokenShards(store(tmp_path, TOKENS), "train")
    samples = [shards.sample(one, length) for one in range(shards.num_samples(length))]
    assert all(sample.shape == (length + 1,) for sample in samples)
    targets = np.concatenate([sample[1:] for sample in samples])
    np.testing.assert_array_equal(targets, TOKENS[1 : 1 + len(targets)])
    assert len(TOKENS) - 1 - len(targets) < length


def test_a_sample_past_the_end_is_an_error(tmp_path):
    shards = TokenShards(store(tmp_path, TOKENS), "train")
    with pytest.raises(IndexError):
        shards.sample(shards.num_samples(8), 8)


def test_an_empty_split_has_no_samples(tmp_path):
    shards = TokenShards(store(tmp_path, TOKENS), "test")
    assert (shards.num_tokens, shards.num_samples(8), len(shards.window(0, 0))) == (0, 0, 0)


def test_documents_are_found_by_row(tmp_path):
    shards = TokenShards(store(tmp_path, TOKENS), "train")
    parts = [shards.document_tokens(row) for row in range(shards.documents.num_rows)]
    assert list(map(len, parts)) == [10, 50, 43]
    np.testing.assert_array_equal(np.concatenate(parts), TOKENS)


def test_an_epoch_visits_every_sample_once_in_an_order_of_its_own():
    orders = [sample_order(1000, epoch, seed) for epoch, seed in [(0, 0), (1, 0), (0, 1)]]
    assert all(sorted(order) == list(range(1000)) for order in orders)
    assert len({order.tobytes() for order in orders}) == 3
    np.testing.assert_array_equal(sample_order(1000, 1, 0), orders[1])


def test_the_order_of_an_epoch_never_changes_with_versions():
    assert sample_order(8, epoch=2, seed=5).tolist() == [4, 7, 6, 0, 1, 5, 2, 3]


def test_a_folder_without_an_index_is_not_finished(tmp_path):
    with pytest.raises(DataError, match=r"no index\.json"):
        TokenShards(tmp_path, "train")


def test_an_unknown_split_names_the_known_ones(tmp_path):
    with pytest.raises(DataError, match="'valid', only train, test"):
        TokenShards(store(tmp_path, TOKENS), "valid")


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_shard_is_named(tmp_path, damage):
    file = store(tmp_path, TOKENS) / "train" / "shard-00002.bin"
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    else:
        file.unlink()
    with pytest.raises(DataError, match="shard-00002"):
        TokenShards(tmp_path, "train")
