"""What the three nights of the sample promise, held against the files that are shipped."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.core.pipeline import load

SAMPLES = Path(__file__).parents[2] / "samples"
DATES = ("2026-11-01", "2026-11-02", "2026-11-03")
FILES = ("prose.jsonl.gz", "poems.jsonl.gz", "pairs.jsonl.zst")
COLUMNS = {
    "prose.jsonl.gz": ["id", "lang", "text"],
    "poems.jsonl.gz": ["id", "title", "author", "text"],
    "pairs.jsonl.zst": ["id", "en", "zh"],
}


def rows(path: Path) -> list[dict[str, str]]:
    with pa.input_stream(path, compression="detect") as stream:
        return [json.loads(line) for line in stream.read().decode().splitlines()]


def text(row: dict[str, str]) -> str:
    return row["text"] if "text" in row else f"{row['en']}\n{row['zh']}"


def delivered(date: str) -> dict[str, str]:
    """The text of each document of a night by id; two of the same id would hide one another, so count elsewhere."""
    return {row["id"]: text(row) for name in FILES for row in rows(SAMPLES / "nightly" / date / name)}


@pytest.fixture(scope="module")
def main_texts() -> set[str]:
    """Every text of the main sample that a night may deliver again."""
    found = {
        text(row) for name in ("poems/poems.jsonl.gz", "office-pairs/pairs.jsonl.zst") for row in rows(SAMPLES / name)
    }
    found |= set(pq.read_table(SAMPLES / "office-zh/pages.parquet")["text"].to_pylist())
    return found | {path.read_bytes().decode() for path in SAMPLES.glob("*/**/*.md")}


@pytest.mark.parametrize("date", DATES)
@pytest.mark.parametrize("name", FILES)
def test_a_file_has_its_columns(date, name):
    assert {tuple(row) for row in rows(SAMPLES / "nightly" / date / name)} == {tuple(COLUMNS[name])}


@pytest.mark.parametrize("date", DATES)
def test_the_ids_of_a_night_are_unique_and_begin_with_its_date(date):
    ids = [row["id"] for name in FILES for row in rows(SAMPLES / "nightly" / date / name)]
    assert len(ids) == len(set(ids)) > 500
    assert all(one.startswith(date + "/") for one in ids)


@pytest.mark.parametrize("date", DATES)
def test_a_night_has_about_as_much_english_as_chinese_as_pairs(date):
    prose, poems, pairs = (rows(SAMPLES / "nightly" / date / name) for name in FILES)
    english = sum(len(row["text"].encode()) for row in prose if row["lang"] == "en")
    chinese = sum(len(row["text"].encode()) for row in prose + poems if row.get("lang") != "en")
    both = sum(len(text(row).encode()) for row in pairs)
    assert max(english, chinese, both) < 1.25 * min(english, chinese, both)


@pytest.mark.parametrize("date", DATES)
def test_fifteen_documents_of_a_night_equal_one_of_the_main_sample(date, main_texts):
    assert sum(one in main_texts for one in delivered(date).values()) == 15


def test_ten_documents_of_a_night_came_fresh_the_night_before_under_another_id(main_texts):
    nights = [{key: one for key, one in delivered(date).items() if one not in main_texts} for date in DATES]
    for before, after in pairwise(nights):
        again = [key for key, one in after.items() if one in set(before.values())]
        assert len(again) == 10
        assert all(before[key.replace(key[:10], next(iter(before))[:10], 1)] == after[key] for key in again)


@pytest.mark.parametrize("date", DATES)
def test_a_night_holds_no_mail_address(date):
    assert [key for key, one in delivered(date).items() if re.search(r"[\w.+-]+@[\w-]+\.[A-Za-z]", one)] == []


@pytest.mark.parametrize("date", DATES)
def test_every_origin_of_a_night_has_its_licence(date):
    origins = {key.split("/")[1] for key in delivered(date)}
    assert {f"LICENSE-{one}" for one in origins} == {path.name for path in (SAMPLES / "nightly").glob("LICENSE-*")}


def test_lifecycle_reads_none_of_the_nights():
    sources = load(SAMPLES.parent / "dags/lifecycle.yaml").configs["ingest"].sources
    assert [source.path for source in sources if "nightly" in source.path or source.path.startswith("samples/*")] == []
