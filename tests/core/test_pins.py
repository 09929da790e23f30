"""What a run takes from a changing world is resolved once, from the knobs, the run and the champion."""

from dataclasses import dataclass

import pytest

from tasks.core import pins
from tasks.core.champion import Champion
from tasks.core.config import Config, identity_of, pinned
from tasks.core.errors import ConfigError
from tasks.core.pins import Pins, filled, resolve_pins
from tasks.core.pipeline import load
from tasks.core.plan import plan
from tasks.core.runner import Spec, run


@dataclass(frozen=True, kw_only=True)
class ReadConfig(Config):
    partition: str = pinned("")
    since: str = pinned("")
    files: str = "a"


@dataclass(frozen=True, kw_only=True)
class PublishConfig(Config):
    model_name: str = "song"
    partition: str = pinned("")
    champion: str = pinned("")


@pytest.fixture
def champion(store, monkeypatch):
    """A champion of version 7, made of a counted artifact, that has learned up to the second of November."""
    made = run(Spec(stage="make"), store)
    count = run(Spec(stage="count", inputs={"documents": made.uri}), store)
    monkeypatch.setattr(pins, "needed_champion", lambda model: Champion(model, "7", count.uri, "2026-11-02"))
    return {"make": made.uri, "count": count.uri}


def test_a_pipeline_that_asks_for_nothing_needs_no_champion(store):
    assert resolve_pins({"read": ReadConfig()}, [], store) == Pins({"read": {"partition": ""}}, {})


def test_the_run_tells_the_partition_and_the_champion_the_rest(store, champion):
    found = resolve_pins({"read": ReadConfig(), "publish": PublishConfig()}, ["make"], store, "2026-11-03")
    assert found.knobs == {
        "read": {"partition": "2026-11-03", "since": "2026-11-02"},
        "publish": {"partition": "2026-11-03", "champion": "7"},
    }
    assert found.champion == {"make": champion["make"]}


def test_a_later_since_of_the_pipeline_stays(store, champion):
    config = ReadConfig(partition="2026-11-09", since="2026-11-05")
    found = resolve_pins({"read": config, "publish": PublishConfig()}, [], store)
    assert found.knobs["read"] == {"partition": "2026-11-09", "since": "2026-11-05"}


def test_two_partitions_are_refused(store):
    with pytest.raises(ConfigError) as caught:
        resolve_pins({"read": ReadConfig(partition="2026-11-01")}, [], store, "2026-11-03")
    assert caught.value.problems == ["read.partition: 2026-11-01", "the run: 2026-11-03"]


def test_a_pipeline_that_names_no_model_has_no_champion(store):
    with pytest.raises(ConfigError, match="no stage says which registered model"):
        resolve_pins({"read": ReadConfig()}, ["make"], store)


def test_pinned_knobs_are_filled_in_and_are_no_part_of_the_identity():
    config = filled({"read": ReadConfig()}, Pins({"read": {"partition": "2026-11-03"}}))["read"]
    assert config.partition == "2026-11-03"
    assert identity_of(config) == identity_of(ReadConfig()) == {"files": "a"}


def test_plan_takes_an_input_from_the_champion(tmp_path, store, champion, monkeypatch):
    monkeypatch.setattr(pins, "model_of", lambda configs: "song")
    (tmp_path / "p.py").write_text(
        'a = step(stage="make")\n'
        'b = step(stage="count", inputs={"documents": champion["make"]})\n'
        'c = step(stage="check", inputs={"count": b.output, "before": champion["count"]})\n'
    )
    (tmp_path / "p.yaml").write_text("")
    steps = {step.stage: step.fate for step in plan(load(tmp_path / "p.yaml"), store)}
    assert steps == {"make": "cached", "count": "cached", "check": "will run"}
