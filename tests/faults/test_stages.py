"""Random faults at random moments: whatever is killed, filled up or started twice, the next attempt succeeds.

After each trial: no reader saw a partial artifact, no process is left after the grace period and five seconds, the next
attempt makes what an undisturbed one makes, and MLflow has exactly one run of the stage, which finished.

The long run has 300 trials: 225 here, 17 or 18 of each kind; 60 of training, 15 of each; 15 through Airflow, 3 of
each. A trial's number is its seed, so it is the same each time::

    HEADRACE_FAULT_TRIALS=300 bin/with-env python -m pytest tests/faults
"""

from __future__ import annotations

import json
import random

import pytest

from tests.faults import faults
from tests.faults.faults import Fault, kill
from tests.faults.shares import numbers
from tests.faults.trial import next_attempt_after
from tests.faults.world import REAPER, STAGE, TASK, TRACKING

FAULTS: dict[str, Fault] = {
    "kill the stage": kill(STAGE),
    "kill the reaper": kill(REAPER),
    "kill the task's process": kill(TASK),
    "kill the tracking process": kill(TRACKING),
    "kill three attempts": faults.kill_again_and_again,
    "clear the task": faults.clear,
    "two attempts at once": faults.two_at_once,
    "fill the disk": faults.full_disk,
    "MLflow is away": faults.tracker_away,
    "collect garbage": faults.collect_meanwhile,
    "set the clock back": faults.clock_set_back_between_attempts,
    "set the clock back for one of two": faults.clock_set_back_for_one_of_two,
    "collect garbage by a wrong clock": faults.collect_with_a_wrong_clock,
}
STAGES = ("ingest", "redact")


@pytest.fixture(scope="module")
def template(tmp_path_factory, undisturbed):
    """An undisturbed run of each stage to compare with."""
    rows = [
        {"text": f"Report {number}: write to person{number}@example.com, 在{number}号之前。"} for number in range(400)
    ]
    source = tmp_path_factory.mktemp("source") / "rows.jsonl"
    source.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    config = {"sources": [{"name": "rows", "path": str(source), "format": "jsonl"}]}
    ingest = undisturbed(tmp_path_factory.mktemp("ingest"), "ingest", config, {})
    inputs = {"documents": ingest.artifacts()[0].uri}
    return {"ingest": ingest, "redact": undisturbed(tmp_path_factory.mktemp("redact"), "redact", {}, inputs)}


@pytest.mark.parametrize("number", numbers(usual=8, share=0.75))
def test_after_any_fault_the_next_attempt_succeeds(number, template, tmp_path, monkeypatch):
    draw = random.Random(number)
    name = list(FAULTS)[number % len(FAULTS)]
    next_attempt_after(name, FAULTS[name], template[draw.choice(STAGES)], tmp_path, draw, monkeypatch)
