"""A run of a real Airflow whose stage prints the credentials it got from a Connection."""

import json

import pytest

SECRET = "s3cr3t/of+the=lake"
CONNECTION = {
    "conn_type": "generic",
    "login": "AKIALAKE",
    "password": SECRET,
    "extra": '{"kind": "s3", "endpoint_url": "http://127.0.0.1:9"}',
}
LEAK = "import os\n\nprint('endpoint', os.environ['AWS_ENDPOINT_URL'], 'leaked', os.environ['AWS_SECRET_ACCESS_KEY'])\n"


@pytest.fixture(scope="module")
def leaking(prepared, tmp_path_factory):
    """The checkout after the run, and what the run said. The Connection is in Airflow's database."""
    checkout = prepared.copy(tmp_path_factory.mktemp("leaking") / "checkout")
    stage = checkout.root / "tasks/hum/stage.py"
    stage.write_text(stage.read_text().replace("\nVERSION", f"\n{LEAK}\nVERSION", 1))
    cfg = checkout.root / "airflow.cfg"
    cfg.write_text(cfg.read_text().replace("store_conn_id =", "store_conn_id = lake", 1))
    file = tmp_path_factory.mktemp("connections") / "connections.json"
    file.write_text(json.dumps({"lake": CONNECTION}))
    assert checkout.airflow("connections", "import", str(file)).returncode == 0
    run = checkout.dags_test("song")
    assert run.returncode == 0, run.stdout
    return checkout, run.stdout


def test_a_stage_gets_its_connection_from_airflows_database(leaking):
    assert "endpoint http://127.0.0.1:9 " in leaking[1]


def test_the_log_shows_asterisks_where_a_stage_printed_its_secret(leaking):
    assert "leaked ***" in leaking[1]
    assert SECRET not in leaking[1]


def test_the_secret_is_in_no_log_no_record_and_no_database_of_the_checkout(leaking):
    files = [path for path in leaking[0].root.rglob("*") if path.is_file()]
    assert any("records" in path.parts for path in files)
    assert any(path.name == "airflow.db" for path in files)
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
