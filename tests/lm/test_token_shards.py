import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.core.errors import DataError
from tasks.lm.token_shards import TokenShards, sample_order

TOKENS = np.random.default_rng(0).integers(0, 60_000, 103)


def stream_of(parts, dtype):
    """An Arrow stream by pyarrow's own writer, one row a batch, and where in it each batch's ids are."""
    sink, places = pa.BufferOutputStream(), []
    kind = pa.list_(pa.from_numpy_dtype(np.dtype(dtype)))
    with pa.ipc.new_stream(sink, pa.schema([("input_ids", kind)])) as writer:
        for part in parts:
            writer.write_batch(pa.record_batch([pa.array([part.astype(dtype)], kind)], ["input_ids"]))
            places.append(sink.tell() - -(-len(part) * np.dtype(dtype).itemsize // 8) * 8)
    return sink.getvalue().to_pybytes(), places


def store(folder, tokens, *, shard_tokens=17, batch_tokens=5, dtype="uint16"):
    """Write tokens as the shards of a training split, three documents of them, without our writer."""
    (folder / "train").mkdir()
    entries = []
    for start in range(0, len(tokens), shard_tokens):
        shard, file = tokens[start : start + shard_tokens], f"train/shard-{len(entries):05d}.arrow"
        parts = [shard[at : at + batch_tokens] for at in range(0, len(shard), batch_tokens)]
        content, places = stream_of(parts, dtype)
        (folder / file).write_bytes(content)
        batches = {"tokens_at": places, "num_tokens": [len(part) for part in parts]}
        entries.append({"file": file, "size_bytes": len(content), "num_tokens": len(shard), "batches": batches})
    ends = np.array([10, 60, len(tokens)])
    lengths = np.diff(ends, prepend=0)
    pq.write_table(pa.table({"num_tokens": lengths, "offset": ends - lengths}), folder / "train" / "documents.parquet")
    train = {"shards": entries, "num_tokens": len(tokens), "num_documents": 3, "num_bytes": 1000}
    empty = {"shards": [], "num_tokens": 0, "num_documents": 0, "num_bytes": 0}
    index = {"format": "arrow-stream", "dtype": dtype, "vocab_size": 60_000, "eos_id": 0}
    (folder / "index.json").write_text(json.dumps(index | {"splits": {"train": train, "test": empty}}))
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


@pytest.mark.parametrize(("shard_tokens", "batch_tokens"), [(17, 5), (103, 103), (9, 2), (40, 16)])
@pytest.mark.parametrize("length", [1, 8, 34])
@pytest.mark.parametrize("few", [0, 1000])
def test_several_samples_at_once_are_those_read_alone(tmp_path, monkeypatch, length, shard_tokens, batch_tokens, few):
    monkeypatch.setattr("tasks.lm.token_shards.FEW", few)
    folder = store(tmp_path, TOKENS, shard_tokens=shard_tokens, batch_tokens=batch_tokens)
    shards = TokenShards(folder, "train")
    order = np.random.default_rng(1).permutation(shards.num_samples(length))
    rows = shards.samples(order, length)
    assert rows.dtype == np.int64
    np.testing.assert_array_equal(rows, [shards.sample(one, length) for one in order])
    assert shards.samples([], length).shape == (0, length + 1)


@pytest.mark.parametrize("batch_size", [1, 3, 12, 50])
@pytest.mark.parametrize("at_once", [1, 40, 10**6])
def test_batches_are_the_samples_of_an_order(tmp_path, monkeypatch, batch_size, at_once):
    monkeypatch.setattr("tasks.lm.token_shards.READ_AHEAD_TOKENS", at_once)
    shards, order = TokenShards(store(tmp_path, TOKENS), "train"), sample_order(12, 0, 0)
    batches = list(shards.batches(order, 8, batch_size))
    assert [len(one) for one in batches[:-1]] == [batch_size] * (len(batches) - 1)
    np.testing.assert_array_equal(np.concatenate(batches), shards.samples(order, 8))


@pytest.mark.parametrize("wrong", [-1, 12, 10**6])
def test_a_sample_outside_the_split_among_several_is_an_error(tmp_path, wrong):
    with pytest.raises(IndexError):
        TokenShards(store(tmp_path, TOKENS), "train").samples([0, wrong], 8)


def test_an_empty_split_has_no_samples(tmp_path):
    shards = TokenShards(store(tmp_path, TOKENS), "test")
    assert (shards.num_tokens, shards.num_samples(8), len(shards.window(0, 0))) == (0, 0, 0)
    assert shards.samples([], 8).shape == (0, 9)


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


def test_shards_of_another_format_are_refused(tmp_path):
    index = json.loads((store(tmp_path, TOKENS) / "index.json").read_text())
    del index["format"]
    (tmp_path / "index.json").write_text(json.dumps(index))
    with pytest.raises(DataError, match="of the format None") as caught:
        TokenShards(tmp_path, "train")
    assert caught.value.next_step == "make the shards again"


def test_an_unknown_split_names_the_known_ones(tmp_path):
    with pytest.raises(DataError, match="'valid', only train, test"):
        TokenShards(store(tmp_path, TOKENS), "valid")


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_shard_is_named(tmp_path, damage):
    file = store(tmp_path, TOKENS) / "train" / "shard-00002.arrow"
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    else:
        file.unlink()
    with pytest.raises(DataError, match="shard-00002"):
        TokenShards(tmp_path, "train")
