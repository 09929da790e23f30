from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from tasks.core.errors import DataError
from tasks.training.ledger import PASS, LedgerWriter, Terms, begin, read, read_terms

TERMS = Terms(num_steps=3, global_batch=4, num_samples=9)


@pytest.fixture
def folder(tmp_path) -> Path:
    """Three steps of two processes."""
    begin(tmp_path / "ledger", TERMS, 0)
    for rank in (0, 1):
        writer = LedgerWriter(tmp_path / "ledger", rank, 2)
        for step in (1, 2, 3):
            first = 4 * (step - 1) + 2 * rank
            writer.record(step, range(first, first + 2), [100 + first, 101 + first])
    return tmp_path / "ledger"


def rows(folder: Path) -> list[tuple[int, ...]]:
    return sorted(read(folder).tolist())


def test_what_is_recorded_is_read_back(folder):
    assert read_terms(folder) == TERMS
    assert rows(folder) == [(n // 4 + 1, n % 4 // 2, 2, n, 100 + n) for n in range(12)]


def test_a_ledger_is_cut_back_to_the_step_it_resumes_from(folder):
    kept = [row for row in rows(folder) if row[0] <= 2]
    begin(folder, TERMS, 2)
    assert rows(folder) == kept


def test_what_a_killed_process_left_half_written_is_cut_off(folder):
    kept = [row for row in rows(folder) if row[0] <= 2]
    for name in ("rank-00000.passes", "rank-00001.places"):
        with (folder / name).open("ab") as file:
            file.write(b"half")
    begin(folder, TERMS, 2)
    assert rows(folder) == kept


def test_a_process_that_is_no_more_keeps_what_counts(folder):
    begin(folder, TERMS, 1)
    alone = LedgerWriter(folder, 0, 1)
    alone.record(2, range(4, 8), [7, 8, 9, 10])
    assert [row[:3] for row in rows(folder)] == [(1, 0, 2)] * 2 + [(1, 1, 2)] * 2 + [(2, 0, 1)] * 4


def test_places_that_lack_are_not_made_up(folder):
    path = folder / "rank-00001.places"
    path.write_bytes(path.read_bytes()[:-8])
    begin(folder, TERMS, 3)
    with pytest.raises(DataError, match=r"rank-00001\.places .* holds 4 places for 6 samples"):
        read(folder)


def test_no_ledger_is_told_from_an_empty_one(tmp_path):
    with pytest.raises(DataError, match=r"no sample ledger: index\.json is missing"):
        read_terms(tmp_path)


def test_a_number_beyond_32_bits_comes_back(tmp_path):
    begin(tmp_path / "ledger", TERMS, 0)
    LedgerWriter(tmp_path / "ledger", 0, 1).record(1, range(2**33, 2**33 + 2), [0, 2**32 - 1])
    assert [row[3:] for row in rows(tmp_path / "ledger")] == [(2**33, 0), (2**33 + 1, 2**32 - 1)]


def test_a_step_costs_a_few_bytes_and_less_than_a_millisecond(tmp_path):
    begin(tmp_path / "ledger", TERMS, 0)
    writer, places = LedgerWriter(tmp_path / "ledger", 0, 1), list(range(64))
    started = time.process_time()
    for step in range(1, 501):
        writer.record(step, range(64 * (step - 1), 64 * step), places)
    assert time.process_time() - started < 0.5
    sizes = [path.stat().st_size for path in sorted((tmp_path / "ledger").glob("rank-*"))]
    assert sizes == [500 * PASS.itemsize, 500 * 64 * np.dtype("<u4").itemsize] == [10_000, 128_000]
