"""Where the credentials of a Connection go, and above all where they never go."""

import json

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from plugins.hooks import credentials
from plugins.operators import last_words
from plugins.operators.stage import StageOperator
from plugins.params import params_of
from tasks.core.errors import FIVE_LINES, ConfigError
from tests.plugins.test_operators import context_of

SECRET, TOKEN = "s3cr3t/of+the=lake", "token-of-an-hour"
LAKE = {
    "conn_type": "aws",
    "login": "AKIALAKE",
    "password": SECRET,
    "extra": {"aws_session_token": TOKEN, "endpoint_url": "http://127.0.0.1:9000", "region_name": "eu-central-1"},
}
LAKE_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "AKIALAKE",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_SESSION_TOKEN": TOKEN,
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
    "AWS_DEFAULT_REGION": "eu-central-1",
}
HDFS = {
    "conn_type": "generic",
    "host": "namenode",
    "port": 8020,
    "extra": {
        "kind": "hdfs",
        "user": "rivers",
        "hadoop_conf_dir": "/etc/hadoop/conf",
        "krb5_ccname": "/run/krb5cc",
        "store": "/headrace",
    },
}
NOTES = "import json, os, pathlib, sys\nrequest = json.load(sys.stdin)\n"


@pytest.fixture(autouse=True)
def silence():
    yield
    last_words._words.clear()


@pytest.fixture
def connected(monkeypatch):
    """Defines Connections, and says which are the store's and the sources'."""

    def connect(connections, *, store="", sources=""):
        for name, connection in connections.items():
            monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))
        monkeypatch.setenv("AIRFLOW__HEADRACE__STORE_CONN_ID", store)
        monkeypatch.setenv("AIRFLOW__HEADRACE__SOURCE_CONN_IDS", sources)

    return connect


@pytest.fixture
def hum(song):
    with DAG("song", schedule=None, params=params_of(str(song))):
        return StageOperator(stage="hum", pipeline=str(song))


def with_extra(connection, **extra):
    return {**connection, "extra": {**connection["extra"], **extra}}


def refusal():
    with pytest.raises(ConfigError) as caught:
        credentials.for_commands()
    return str(caught.value)


def test_without_a_connection_the_environment_is_left_as_it_is():
    assert credentials.for_commands().environment == {}


@pytest.mark.parametrize("option", ["store", "sources"])
def test_a_connection_to_s3_becomes_the_variables_that_every_s3_library_reads(connected, option):
    connected({"lake": LAKE}, **{option: "lake"})
    assert credentials.for_commands().environment == LAKE_ENVIRONMENT


def test_a_generic_connection_does_what_one_of_amazons_type_does(connected):
    connected({"lake": with_extra({**LAKE, "conn_type": "generic"}, kind="s3")}, store="lake")
    assert credentials.for_commands().environment == LAKE_ENVIRONMENT


def test_a_connection_to_hdfs_becomes_hadoops_variables_and_may_name_the_store(connected):
    connected({"cluster": HDFS}, store="cluster")
    assert credentials.for_commands().environment == {
        "HADOOP_USER_NAME": "rivers",
        "HADOOP_CONF_DIR": "/etc/hadoop/conf",
        "KRB5CCNAME": "/run/krb5cc",
        "HEADRACE_STORE": "hdfs://namenode:8020/headrace",
    }


def test_a_store_on_s3_is_named_as_it_is_written_everywhere(connected):
    connected({"lake": with_extra(LAKE, store="s3://bucket/headrace")}, store="lake")
    assert credentials.for_commands().environment["HEADRACE_STORE"] == "s3://bucket/headrace"


def test_a_store_on_s3_and_a_source_on_hdfs_go_together(connected):
    cluster = {**HDFS, "extra": {"kind": "hdfs", "user": "rivers"}}
    connected({"lake": LAKE, "cluster": cluster}, store="lake", sources="cluster")
    assert credentials.for_commands().environment == {**LAKE_ENVIRONMENT, "HADOOP_USER_NAME": "rivers"}


def test_keys_without_a_session_token_hide_the_workers_own_token(connected):
    connected({"lake": {"conn_type": "aws", "login": "AKIALAKE", "password": SECRET}}, store="lake")
    assert credentials.for_commands().environment["AWS_SESSION_TOKEN"] == ""


def test_two_connections_of_a_kind_that_differ_are_refused_with_the_field(connected):
    connected({"lake": LAKE, "sea": {**LAKE, "password": "another of these"}}, store="lake", sources="sea")
    said = refusal()
    assert "connections 'lake' and 'sea' are both for s3 and differ" in said
    assert "AWS_SECRET_ACCESS_KEY" in said
    assert SECRET not in said
    assert "another of these" not in said


@pytest.mark.parametrize(
    ("connection", "told"),
    [
        ({**LAKE, "login": ""}, "login (the access key id): missing"),
        ({**LAKE, "password": ""}, "password (the secret access key): missing"),
        ({**LAKE, "host": "minio"}, "host: is not read"),
        ({**LAKE, "conn_type": "generic"}, 'extra.kind neither "s3" nor "hdfs"'),
        ({**LAKE, "conn_type": "generic", "extra": {"kind": "ftp"}}, 'extra.kind neither "s3" nor "hdfs"'),
        (with_extra(LAKE, role_arn=SECRET), "extra.role_arn: no such field; known: aws_session_token"),
        (with_extra(LAKE, region_name=[SECRET]), "extra.region_name: is not a text"),
        (with_extra(LAKE, store="bucket/headrace"), "extra.store: neither s3://"),
        ({**LAKE, "extra": f"{{not json {SECRET}"}, "extra: is not JSON"),
    ],
)
def test_a_connection_that_cannot_be_used_is_named_with_the_field_and_without_what_it_holds(
    connected, connection, told
):
    connected({"lake": connection}, store="lake")
    said = refusal()
    assert "connection 'lake' cannot be used" in said
    assert told in said
    assert SECRET not in said


@pytest.mark.parametrize("option", ["store", "sources"])
def test_a_missing_connection_is_named_with_the_option_that_asks_for_it(connected, option):
    connected({}, **{option: "lake"})
    name = {"store": "store_conn_id", "sources": "source_conn_ids"}[option]
    assert f"there is no connection 'lake':\n  [headrace] {name} names it" in refusal()


def test_a_task_refuses_a_bad_connection_in_five_lines_before_its_command_starts(hum, connected, tasks_command):
    folder = tasks_command("import pathlib; pathlib.Path('started').touch()")
    connected({"lake": with_extra({**LAKE, "login": ""}, role_arn=TOKEN)}, store="lake")
    with pytest.raises(AirflowFailException) as caught:
        hum.run_command(["run", "hum"], {}, context_of(hum))
    words = last_words._words["hum"]
    assert [line.partition(": ")[0] for line in words] == list(FIVE_LINES)
    assert "'lake'" in words[1]
    assert "extra.role_arn" in words[1]
    assert "Admin, Connections" in words[3]
    assert not [secret for secret in (SECRET, TOKEN) if secret in str(caught.value) + "".join(words)]
    assert not (folder / "started").exists()


def test_a_command_gets_the_credentials_in_its_environment_and_in_no_command_line(hum, connected, tasks_command):
    tasks_command(
        NOTES + "lines = [path.read_text(errors='replace') for path in pathlib.Path('/proc').glob('[0-9]*/cmdline')]\n"
        "answer = {'environment': dict(os.environ), 'lines': lines, 'request': request}\n"
        "pathlib.Path(request['outcome']).write_text(json.dumps(answer))"
    )
    connected({"lake": LAKE}, store="lake")
    seen = hum.run_command(["run", "hum"], {"stage": "hum"}, context_of(hum))
    assert LAKE_ENVIRONMENT.items() <= seen["environment"].items()
    assert any("reaper" in line for line in seen["lines"])
    assert not [line for line in seen["lines"] if SECRET in line or TOKEN in line]
    assert SECRET not in json.dumps(seen["request"])


def test_a_command_gets_none_of_airflows_own_connections(hum, connected, tasks_command, monkeypatch):
    tasks_command(NOTES + "pathlib.Path(request['outcome']).write_text(json.dumps(dict(os.environ)))")
    connected({"lake": LAKE})
    monkeypatch.setenv("AIRFLOW_VAR_SEA", "salt")
    seen = hum.run_command(["run", "hum"], {}, context_of(hum))
    assert not [name for name in seen if name.startswith(("AIRFLOW_CONN_", "AIRFLOW_VAR_"))]


def test_what_a_command_prints_of_its_credentials_is_in_no_log_no_exception_and_no_last_words(
    hum, connected, tasks_command, caplog, capsys
):
    tasks_command(
        "import os\nsecret, token = os.environ['AWS_SECRET_ACCESS_KEY'], os.environ['AWS_SESSION_TOKEN']\n"
        "print('refused:', secret)\n"
        "print('stage: hum', f'cause: {secret}', f'input: {token}', 'next step: n', 'reproduce: r', sep='\\n')\n"
        "raise SystemExit(3)"
    )
    connected({"lake": LAKE}, store="lake")
    with pytest.raises(AirflowFailException) as caught, caplog.at_level("INFO"):
        hum.run_command(["run", "hum"], {}, context_of(hum))
    last_words.speak()
    said = caplog.text + str(caught.value) + "".join(capsys.readouterr())
    assert "cause: ***" in said
    assert not [secret for secret in (SECRET, TOKEN) if secret in said]


def test_the_credentials_are_not_shown_by_what_holds_them(connected):
    connected({"lake": LAKE}, store="lake")
    assert SECRET not in repr(credentials.for_commands())
