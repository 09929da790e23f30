"""Who becomes the champion, decided on a real registry of MLflow."""

import json
from collections.abc import Callable

import pytest
from upath import UPath

from tasks.core import mlflow_runs
from tasks.core.champion import champion_of, crown
from tasks.core.config import validated
from tasks.core.errors import ConfigError, DataError
from tasks.core.registered import ARTIFACT_TAG
from tasks.promote.config import PromoteConfig
from tasks.promote.stage import PromoteResult, run

BETTER = {"ratio": 0.97, "low": 0.96, "high": 0.98, "by_language": {"en": 0.96, "zh": 0.98}}
Promote = Callable[..., PromoteResult]


@pytest.fixture
def packages(tmp_path, mlflow_database):
    """Two registered packages: the first is the champion and has learned up to the second of November."""
    client = mlflow_runs.client()
    client.create_registered_model("song")
    found = []
    for digit in "12":
        bento = UPath(tmp_path / "package" / (digit * 24) / "20261130T000000-00000000")
        bento.mkdir(parents=True)
        (bento / "bento.json").write_text(json.dumps({"limits": {"model_name": "song"}}))
        client.create_model_version("song", f"file:///{digit}", tags={ARTIFACT_TAG: str(bento)})
        found.append(bento)
    crown("song", str(found[0]), "2026-11-02")
    return found


@pytest.fixture
def promote(tmp_path, packages):
    """``promote(knob=value)`` with the second package; the comparison is in ``compared``."""

    def go(compared=BETTER, bento=packages[1], **knobs) -> PromoteResult:
        evaluation, out = UPath(tmp_path / "evaluation"), UPath(tmp_path / "out")
        for folder in (evaluation, out):
            folder.mkdir(exist_ok=True)
        (evaluation / "evaluation.json").write_text(json.dumps({"vs_champion": compared}))
        values = {"partition": "2026-11-03", "champion": "1"} | knobs
        result = run(validated(PromoteConfig, values, stage="promote"), bento, evaluation, out=out)
        assert json.loads((out / "decision.json").read_text())["kept"] is result.kept
        return result

    return go


def test_a_newer_and_better_one_takes_the_champions_place(promote):
    result = promote()
    assert (result.kept, result.champion, result.partition) == (True, "models:/song/2", "2026-11-03")
    assert champion_of("song").version == "2"


@pytest.mark.parametrize(
    ("compared", "knobs", "reason"),
    [
        (BETTER, {"partition": "2026-11-01"}, "its partition 2026-11-01 is not newer than the champion's 2026-11-02"),
        (BETTER, {"partition": "2026-11-02"}, "is not newer"),
        (BETTER, {"champion": "5"}, "it was compared with version 5, and version 1 is the champion now"),
        ({**BETTER, "high": 1.001}, {}, "at most 1 is allowed at the upper end"),
        ({**BETTER, "high": float("nan")}, {}, "at most 1 is allowed at the upper end"),
        ({**BETTER, "by_language": {"en": 0.9, "zh": 1.05}}, {}, "1.0500 of them in zh, at most 1.02 is allowed"),
    ],
)
def test_any_other_is_rejected_with_the_reason_and_changes_nothing(promote, compared, knobs, reason):
    result = promote(compared, **knobs)
    assert not result.kept
    assert reason in result.reason
    assert (result.champion, champion_of("song").version) == ("models:/song/1", "1")


def test_all_reasons_are_said(promote):
    reason = promote({**BETTER, "high": 1.2}, partition="2026-11-01", champion="5").reason
    assert reason.count(";") == 2


def test_deciding_twice_leaves_the_champion_where_it_is(promote):
    promote()
    again = promote()
    assert (again.kept, again.reason) == (True, "it is the champion already")


def test_an_evaluation_without_a_comparison_is_refused(promote):
    with pytest.raises(DataError, match="did not compare the model with the champion"):
        promote(compared=None)


def test_without_any_champion_nobody_is_compared(promote):
    mlflow_runs.client().delete_registered_model_alias("song", "champion")
    with pytest.raises(ConfigError, match="no champion"):
        promote()
