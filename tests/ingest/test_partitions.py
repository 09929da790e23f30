"""Sources whose paths name a partition: which partitions are read, and what a document of one is called."""

import json
from datetime import date

import pytest

from tasks.core.config import identity_of, validated
from tasks.core.errors import ConfigError, NothingNew
from tasks.ingest.config import IngestConfig
from tasks.ingest.files import all_files
from tasks.ingest.fingerprint import fingerprint


@pytest.fixture
def incoming(tmp_path):
    """Three nights; the second also brought what the first had."""
    for night, texts in {"2026-11-01": ["one"], "2026-11-02": ["one", "two"], "2026-11-03": ["three"]}.items():
        folder = tmp_path / f"dt={night}" / "deep"
        folder.mkdir(parents=True)
        (folder / "rows.jsonl").write_text("".join(json.dumps({"key": text, "text": text}) + "\n" for text in texts))
    return tmp_path / "dt={partition}"


@pytest.mark.parametrize(
    ("partition", "since", "read"),
    [
        ("2026-11-03", "2026-11-02", ["three"]),
        ("2026-11-03", "2026-11-01", ["one", "three", "two"]),
        ("2026-11-02", "", ["one", "one", "two"]),
        ("2026-11-01", "2026-11-03", ["one"]),
        ("2026-11-04", "2026-11-02", ["three"]),
    ],
)
def test_what_came_since_is_read_and_always_the_partition_itself(incoming, ingest, partition, since, read):
    source = {"path": incoming / "deep" / "*.jsonl", "id_column": "key"}
    assert ingest(source, partition=partition, since=since).texts == read


def test_a_partition_may_be_a_whole_folder(incoming, ingest):
    assert ingest({"path": incoming}, partition="2026-11-02", since="2026-11-01").texts == ["one", "two"]


def test_what_a_writer_hides_is_no_partition(tmp_path, ingest):
    for name in (".writing", "_temporary", "2026-11-01"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
    assert ingest({"path": tmp_path / "{partition}"}, partition="_z").texts == ["2026-11-01"]


def test_a_row_delivered_twice_under_one_key_is_two_documents_of_one_text(incoming, ingest):
    rows = ingest({"path": incoming, "id_column": "key"}, partition="2026-11-02").rows
    again = [row for row in rows if row["text"] == "one"]
    assert len({row["id"] for row in again}) == 2
    assert len({row["text_digest"] for row in again}) == 1


def config_of(*paths, **knobs):
    sources = [{"name": f"s{number}", "path": str(path)} for number, path in enumerate(paths)]
    return validated(IngestConfig, {"sources": sources} | knobs, stage="ingest")


def test_which_partition_it_is_enters_the_identity_by_what_is_found_there(incoming):
    first, second = (config_of(incoming, partition=one, since="2026-10-31") for one in ("2026-11-01", "2026-11-02"))
    assert identity_of(first) == identity_of(second)
    assert fingerprint(first) != fingerprint(second)
    assert [one[0] for one in fingerprint(first)["s0"]] == ["dt=2026-11-01/deep/rows.jsonl"]


def test_a_date_that_yaml_made_of_a_partition_is_its_text():
    assert config_of("{partition}", partition=date(2026, 11, 1)).partition == "2026-11-01"


def test_one_of_several_sources_may_have_brought_nothing(incoming, tmp_path):
    config = config_of(incoming, tmp_path / "other" / "{partition}", partition="2026-11-01")
    assert {name: len(files) for name, files in all_files(config).items()} == {"s0": 1, "s1": 0}


def test_nothing_new_is_said_with_what_was_looked_for(incoming):
    with pytest.raises(NothingNew, match=r"no partition 2026-11-09, nor one since 2026-11-08 under .*dt=\{partition\}"):
        all_files(config_of(incoming, partition="2026-11-09", since="2026-11-08"))


def test_a_partition_that_nobody_told_is_asked_for(incoming):
    with pytest.raises(ConfigError, match="has partitions, and none is asked for"):
        all_files(config_of(incoming))


@pytest.mark.parametrize("path", ["*/{partition}/a.txt", "{partition}/{partition}"])
def test_a_path_in_which_the_partition_cannot_be_told_is_refused(path):
    with pytest.raises(ConfigError, match="at most once, and no wildcard before it"):
        config_of(path)
