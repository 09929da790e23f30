"""A shard is read by pyarrow as rows and by numpy as an array, without either knowing of the other."""

import io

import numpy as np
import pyarrow as pa
import pytest

from tasks.lm.shard_file import even_runs, runs_of_at_most, write_shard

DRAW = np.random.default_rng(0)


def documents(count):
    return [DRAW.integers(0, 60_000, DRAW.integers(1, 40)) for _ in range(count)]


def written(batches, dtype):
    sink = io.BytesIO()
    flat = [(np.concatenate(one).astype(dtype), np.array([len(row) for row in one], np.int64)) for one in batches]
    return sink, write_shard(sink, np.dtype(dtype), flat)


@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
@pytest.mark.parametrize("num_batches", [0, 1, 5])
def test_pyarrow_reads_the_documents_as_rows_of_the_stored_width(dtype, num_batches):
    batches = [documents(7) for _ in range(num_batches)]
    sink, _ = written(batches, dtype)
    table = pa.ipc.open_stream(sink.getvalue()).read_all()
    assert table.schema.field("input_ids").type == pa.list_({"<u2": pa.uint16(), "<u4": pa.uint32()}[dtype])
    assert table["input_ids"].to_pylist() == [row.tolist() for one in batches for row in one]
    assert table["input_ids"].num_chunks == num_batches


@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
def test_the_ids_of_a_batch_lie_in_one_piece_where_the_index_says(dtype):
    batches = [documents(count) for count in (1, 2, 3, 8, 50)]
    sink, entry = written(batches, dtype)
    for at, count, batch in zip(
        *(entry["batches"][name] for name in ("tokens_at", "num_tokens")), batches, strict=True
    ):
        assert at % 8 == 0
        np.testing.assert_array_equal(np.frombuffer(sink.getvalue(), dtype, count, at), np.concatenate(batch))


def test_every_batch_can_be_read_alone_from_its_place():
    batches = [documents(count) for count in (3, 1, 20)]
    sink, entry = written(batches, "<u2")
    schema = pa.ipc.open_stream(sink.getvalue()).schema
    for start, batch in zip(entry["batches"]["start"], batches, strict=True):
        rows = pa.ipc.read_record_batch(pa.py_buffer(sink.getvalue()[start:]), schema)
        assert rows["input_ids"].to_pylist() == [row.tolist() for row in batch]


def test_the_totals_are_those_of_the_batches():
    sink, entry = written([documents(4), documents(9)], "<u2")
    assert entry["size_bytes"] == len(sink.getvalue())
    assert entry["num_documents"] == sum(entry["batches"]["num_documents"]) == 13
    assert entry["num_tokens"] == sum(entry["batches"]["num_tokens"])


def test_a_run_holds_as_many_documents_as_fit():
    lengths = np.array([3, 3, 5, 9, 1, 4, 4])
    runs = runs_of_at_most(lengths, 8)
    assert [lengths[run].tolist() for run in runs] == [[3, 3], [5], [9], [1, 4], [4]]
    assert runs_of_at_most(lengths[:0], 8) == []


@pytest.mark.parametrize("num_runs", [1, 2, 3, 10, 200, 1000])
def test_even_runs_hold_every_document_once_and_exceed_their_share_by_less_than_one(num_runs):
    lengths = DRAW.integers(1, 100, 300)
    runs = even_runs(lengths, num_runs)
    assert len(runs) == num_runs
    assert [at for run in runs for at in range(300)[run]] == list(range(300))
    for run in runs:
        if lengths[run].size:
            assert lengths[run][:-1].sum() < lengths.sum() / num_runs + 1


def test_no_documents_make_only_empty_runs():
    assert even_runs(np.array([], np.int64), 3) == [slice(0, 0)] * 3
