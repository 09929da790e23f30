"""Estimates come from what was measured, and what is measured is all of it."""

import json
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from tasks.core import stage
from tasks.core.artifact import newest
from tasks.core.config import plain
from tasks.core.estimate import STARTUP_S, Cost, cost_of, cost_told, estimate, sample_cost, total_told
from tasks.core.peak_memory import PeakMemory
from tasks.core.pipeline import load
from tasks.core.plan import plan
from tasks.core.runner import Spec, run
from tasks.core.stage import config_type_of, stage_names

MEGABYTE = 10**6
MEASURED = Cost(work=100, seconds=12, peak_memory_bytes=500 * MEGABYTE, disk_bytes=10 * MEGABYTE)


def test_time_memory_and_disk_grow_with_the_bytes_that_come_in():
    scaled = MEASURED.scaled(300, in_bytes=True)
    assert scaled.seconds == pytest.approx(STARTUP_S + 3 * (12 - STARTUP_S))
    assert (scaled.peak_memory_bytes, scaled.disk_bytes) == (1500 * MEGABYTE, 30 * MEGABYTE)


def test_less_work_needs_no_less_memory():
    assert MEASURED.scaled(1, in_bytes=True).peak_memory_bytes == MEASURED.peak_memory_bytes


def test_work_that_is_not_bytes_takes_time_alone():
    scaled = MEASURED.scaled(1000, in_bytes=False)
    assert (scaled.peak_memory_bytes, scaled.disk_bytes) == (MEASURED.peak_memory_bytes, MEASURED.disk_bytes)


def test_more_tokens_or_a_wider_model_is_more_work():
    small, long, wide = (
        config_type_of("train")(**knobs)
        for knobs in ({}, {"train_tokens": 5_600_000}, {"hidden_size": 384, "num_heads": 6, "num_kv_heads": 6})
    )
    assert long.work == pytest.approx(2 * small.work, rel=0.01)
    assert wide.work > 2 * small.work


def test_a_stage_that_was_never_measured_has_no_estimate(toy_pipeline, store):
    assert [step.cost for step in plan(load(toy_pipeline), store)] == [None, None, None]


def test_after_a_run_the_estimate_is_what_it_took(toy_pipeline, store):
    pipeline = load(toy_pipeline)
    run(Spec(stage="make", config=plain(pipeline.configs["make"])), store)
    (path,) = store.artifacts("make")
    measured = cost_of(newest(store, path))
    forced = plan(pipeline, store, force=["make"])[0]
    assert measured.peak_memory_bytes > 10 * MEGABYTE
    assert forced.cost.peak_memory_bytes == measured.peak_memory_bytes
    assert forced.cost.seconds == pytest.approx(max(measured.seconds, STARTUP_S), abs=0.01)


def test_the_run_with_the_most_similar_work_is_scaled(store, monkeypatch):
    run(Spec(stage="make"), store)
    run(Spec(stage="make", config={"num_documents": 9}), store)
    for path, work in zip(store.artifacts("make"), (10.0, 1000.0), strict=True):
        doctor(store, path, work=work, seconds=work / 10 + STARTUP_S)
    config = config_type_of("make")()
    monkeypatch.setattr(type(config), "work", 2000.0, raising=False)
    assert estimate(store, "make", config, 0).seconds == pytest.approx(STARTUP_S + 200)


def doctor(store, path, **measured):
    record = newest(store, path).record
    store.create(path / "records" / "2.json", replace(record, measured={**record.measured, **measured}).to_json())


def test_a_stage_has_the_cost_on_the_sample_beside_it(store, monkeypatch, tmp_path):
    folder = tmp_path / "make"
    folder.mkdir()
    (folder / "measured.json").write_text(json.dumps(asdict(MEASURED)))
    monkeypatch.setattr("tasks.core.estimate.stage_files", lambda: {"make": folder / "stage.py"})
    assert estimate(store, "make", config_type_of("make")(), 100) == MEASURED


def test_every_shipped_stage_was_measured_on_the_sample():
    shipped = [name for name in stage_names() if "toy" not in str(stage.stage_files()[name])]
    assert [name for name in shipped if sample_cost(name) is None] == []


def test_memory_of_processes_a_stage_starts_counts_too():
    code = "import time; held = bytearray(120_000_000); held[::4096] = b'x' * len(held[::4096]); time.sleep(2.5)"
    with PeakMemory() as memory:
        subprocess.run([sys.executable, "-c", code], check=True, start_new_session=True)
    assert memory.bytes > 120 * MEGABYTE


def test_a_peak_between_two_looks_is_not_missed(tmp_path):
    code = """
import time
from tasks.core.peak_memory import PeakMemory
earlier = bytearray(900_000_000); earlier[::4096] = b"x" * len(earlier[::4096])
del earlier
with PeakMemory() as memory:
    time.sleep(0.2)
    held = bytearray(300_000_000); held[::4096] = b"x" * len(held[::4096])
    del held
    time.sleep(0.1)
print(memory.bytes)
"""
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert 300 * MEGABYTE < int(told) < 400 * MEGABYTE


def test_costs_are_told_with_units_people_use():
    assert cost_told(MEASURED) == "about 12 s, 500 MB"
    long = replace(MEASURED, seconds=600, peak_memory_bytes=2_300 * MEGABYTE)
    assert total_told([MEASURED, long]) == "about 10 min, 2.3 GB of memory at most, 20 MB on disk"
