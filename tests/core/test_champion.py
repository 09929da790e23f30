import pytest

from tasks import __main__ as command
from tasks.core import mlflow_runs
from tasks.core.champion import ALIAS, PREVIOUS, Champion, ancestor, champion_of, crown, needed_champion
from tasks.core.errors import ConfigError, DataError, ServiceError
from tasks.core.registered import ARTIFACT_TAG
from tasks.core.runner import Spec, run


@pytest.fixture
def registry(mlflow_database):
    """A registry with two registered packages of one model, and none in service."""
    client = mlflow_runs.client()
    client.create_registered_model("song")
    for digit in "12":
        uri = f"/store/package/{digit * 24}/20261130T000000-00000000"
        client.create_model_version("song", f"file:///{digit}", tags={ARTIFACT_TAG: uri})
    return client


def uri_of(digit):
    return f"/elsewhere/package/{digit * 24}"


def test_without_a_champion_the_way_to_the_first_one_is_said(registry):
    assert champion_of("song") is None
    assert champion_of("no such model") is None
    with pytest.raises(ConfigError, match="the registered model song has no champion") as caught:
        needed_champion("song")
    assert "python -m tasks promote URI" in caught.value.next_step


def test_who_is_crowned_is_the_champion_wherever_the_store_lies(registry):
    made = crown("song", uri_of("1"), "2026-11-01")
    assert made == Champion("song", "1", f"/store/package/{'1' * 24}/20261130T000000-00000000", "2026-11-01")
    assert champion_of("song") == made


def test_the_one_before_can_be_found_again(registry):
    crown("song", uri_of("1"))
    crown("song", uri_of("2"))
    crown("song", uri_of("2"))
    aliases = registry.get_registered_model("song").aliases
    assert {name: str(version) for name, version in aliases.items()} == {ALIAS: "2", PREVIOUS: "1"}


def test_what_is_not_registered_cannot_be_crowned(registry):
    with pytest.raises(DataError, match="is not registered as song"):
        crown("song", uri_of("3"))
    assert champion_of("song") is None


def test_a_champion_that_is_no_artifact_is_refused(registry):
    registry.create_model_version("song", "file:///somebody")
    registry.set_registered_model_alias("song", ALIAS, "3")
    with pytest.raises(DataError, match="does not say which artifact it is"):
        champion_of("song")


def test_a_registry_that_does_not_answer_is_a_missing_service(monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with pytest.raises(ServiceError, match="does not answer"):
        champion_of("song")


def test_an_ancestor_is_the_nearest_one_of_its_stage(store):
    made = run(Spec(stage="make"), store)
    count = run(Spec(stage="count", inputs={"documents": made.uri}), store)
    again = run(Spec(stage="count", config={"unit": "lines"}, inputs={"documents": made.uri}), store)
    check = run(Spec(stage="check", inputs={"count": count.uri, "before": again.uri}), store)
    assert ancestor(store, check.uri, "make").uri == made.uri
    assert ancestor(store, check.uri, "count").uri == count.uri
    assert ancestor(store, f"/moved/check/{check.uri.rpartition('/')[2]}/attempt", "check").uri == check.uri
    with pytest.raises(DataError, match=r"nothing that .* was made from is a ingest"):
        ancestor(store, check.uri, "ingest")


def test_what_is_promoted_by_hand_is_a_package(store, registry, capsys):
    made = run(Spec(stage="make"), store)
    assert command.main(["promote", "--store", str(store.root), made.uri]) == 2
    assert "is an artifact of make; what is promoted is one of package" in capsys.readouterr().err
