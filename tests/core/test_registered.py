import pytest

from tasks.core import mlflow_runs
from tasks.core.errors import ServiceError
from tasks.core.registered import ARTIFACT_TAG, registered_artifacts


@pytest.fixture
def registry(mlflow_database):
    """A registry with one model of three versions, of which two have an alias."""
    client = mlflow_runs.client()
    client.create_registered_model("song")
    for number in range(3):
        client.create_model_version("song", f"file:///models/{number}", tags={ARTIFACT_TAG: f"/store/package/{number}"})
    client.set_registered_model_alias("song", "champion", "1")
    client.set_registered_model_alias("song", "challenger", "3")
    client.create_registered_model("of somebody else")
    return client


def test_what_has_an_alias_is_registered(registry):
    assert registered_artifacts() == {"/store/package/0", "/store/package/2"}


def test_a_registry_that_does_not_answer_is_not_an_empty_one(monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with pytest.raises(ServiceError, match="cannot be asked which artifacts it needs"):
        registered_artifacts()
