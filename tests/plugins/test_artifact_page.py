"""The pages of artifacts: what they show, what they refuse, and what they never do."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from plugins.links.artifact import URL_PREFIX, ArtifactLink, address_of
from plugins.plugin import HeadracePlugin
from plugins.views import artifacts, excerpts, lineage
from tasks.core.artifact import Identity, Record, content_digest, files_of, publish
from tasks.core.store import open_store

ROOT = Path(__file__).parents[2]
KEY = "0123456789abcdef01234567"


@pytest.fixture
def store(tmp_path, monkeypatch):
    """An empty store that the pages read."""
    monkeypatch.setenv("HEADRACE_STORE", str(tmp_path / "store"))
    return open_store()


@pytest.fixture
def pages(store):
    """A browser of somebody who may read the pages, which lie below a base path."""
    server = FastAPI(root_path="/airflow")
    server.mount(URL_PREFIX, artifacts.app)
    artifacts.app.dependency_overrides[artifacts.may_read] = lambda: None
    yield TestClient(server, base_url="http://testserver/airflow")
    artifacts.app.dependency_overrides.clear()


@pytest.fixture
def anybody():
    """A browser of somebody who is not logged in."""
    return TestClient(artifacts.app, follow_redirects=False)


def make(store, stage="hum", *, knobs=None, inputs=None, result=None, files=None, minute=0, **more):
    """Publish an artifact as the runner does; ``files`` maps paths to bytes, ``inputs`` names to artifacts."""
    inputs = inputs or {}
    digests = {name: one.record.content_digest for name, one in inputs.items()}
    identity = Identity(stage, 1, knobs or {}, digests)
    attempt = store.new_attempt(stage, identity.key)
    for name, content in (files or {"tune.txt": b"hum"}).items():
        path = attempt / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    listed = files_of(attempt)
    made = {
        "at": f"2026-01-01T{minute // 60:02}:{minute % 60:02}:00+00:00",
        "host": "mill",
        "python": "3.11.7",
        "cpu_flags": ["avx"],
        "libraries": {"numpy": "2.4"},
        "commit": "abc123",
        "source": {},
        "mlflow_run_id": "1",
        "mlflow_url": "http://mlflow/#/1",
    }
    record = Record(
        identity=identity,
        attempt=attempt.name,
        content_digest=content_digest(attempt, listed),
        files=listed,
        result=result or {},
        inputs={name: one.uri.replace(str(store.root), "/moved/since") for name, one in inputs.items()},
        config=knobs or {},
        made=made,
        **more,
    )
    before = store.record_numbers(store.artifact(stage, identity.key))
    return publish(store, record, after=len(before), adopt=False)


def page_of(pages, artifact):
    found = pages.get(f"{URL_PREFIX}/{artifact.record.identity.stage}/{artifact.record.identity.key}")
    assert found.status_code == 200
    return found.text


def parquet(rows):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


# Who may see them


def test_every_route_is_refused_without_a_login(anybody, store):
    assert all(isinstance(route, APIRoute) for route in artifacts.app.routes)
    paths = [route.path.format(stage="hum", key=KEY) for route in artifacts.app.routes]
    assert len(paths) == 3
    assert {path: anybody.get(path).status_code for path in paths} == dict.fromkeys(paths, 401)


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json", "/hum/", "/hum?page=0", "/a/b/c", "/static/x"])
def test_nothing_else_answers_somebody_who_is_not_logged_in(anybody, store, path):
    assert anybody.get(path).status_code in (401, 404)


def test_who_is_not_logged_in_is_led_to_the_login_and_back(anybody, store):
    assert f'href="/auth/login?next=/hum/{KEY}"' in anybody.get(f"/hum/{KEY}").text


def test_the_plugin_serves_only_the_guarded_application():
    apps = HeadracePlugin().fastapi_apps
    assert [(one["app"], one["url_prefix"]) for one in apps] == [(artifacts.app, URL_PREFIX)]


# What can be asked for


@pytest.mark.parametrize(
    "address",
    [
        f"hum/{KEY}",
        "hum/short",
        f"hum/{KEY.upper()}",
        f"HUM/{KEY}",
        "..%2f..%2fetc/passwd",
        "hum/..%2f..%2f..%2fetc%2fpasswd",
        f"hum/%2e%2e%2fhum%2f{KEY}",
        "hum/.lock",
        f"hum%00/{KEY}",
    ],
)
def test_an_address_that_no_artifact_has_is_not_found(pages, store, address):
    make(store)
    assert pages.get(f"{URL_PREFIX}/{address}").status_code == 404


def test_a_folder_of_the_store_that_is_no_artifact_is_not_shown(pages, store):
    make(store)
    (store.root / "hum" / "notes" / "records").mkdir(parents=True)
    (store.root / "hum" / "notes" / "records" / "1.json").write_text("{}")
    (store.root / "README").write_text("not a stage")
    assert "notes" not in pages.get(f"{URL_PREFIX}/hum").text
    assert pages.get(f"{URL_PREFIX}/").status_code == 200


def test_a_store_that_cannot_be_read_is_told_with_what_to_do(pages, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADRACE_STORE", str(tmp_path / "file"))
    answer = pages.get(f"{URL_PREFIX}/")
    assert answer.status_code == 503
    assert "set HEADRACE_STORE to a folder" in answer.text


# The lists


def keys_in(text):
    return list(dict.fromkeys(re.findall(r"/hum/([0-9a-f]{24})", text)))


def test_the_newest_come_first_and_fifty_are_on_a_page(pages, store):
    made = [make(store, knobs={"times": number}, minute=number).record.identity.key for number in range(52)]
    newest = made[::-1]
    assert keys_in(pages.get(f"{URL_PREFIX}/").text) == newest[: artifacts.NEWEST]
    assert keys_in(pages.get(f"{URL_PREFIX}/hum").text) == newest[:50]
    assert keys_in(pages.get(f"{URL_PREFIX}/hum?page=2").text) == newest[50:]
    assert pages.get(f"{URL_PREFIX}/hum?page=3").status_code == 404


def test_stages_are_listed_in_the_order_in_which_data_flows(pages, store):
    tune = make(store, "zither")
    make(store, "answer", inputs={"tune": make(store, "middle", inputs={"tune": tune})})
    headings = re.findall(r'<h2 id="(\w+)"', pages.get(f"{URL_PREFIX}/").text)
    assert headings == ["zither", "middle", "answer"]


def test_an_empty_store_says_how_to_fill_it(pages):
    assert "Trigger a DAG" in pages.get(f"{URL_PREFIX}/").text


# One artifact


def test_a_page_tells_knobs_result_measurements_and_where_it_was_made(pages, store):
    knobs = {"times": 7, "voice": {"pitch": "low"}}
    text = page_of(pages, make(store, knobs=knobs, result={"num_chars": 31}, measured={"rate": 2.5}))
    for name, value in (("times", "7"), ("pitch", "low"), ("num_chars", "31"), ("rate", "2.5"), ("numpy", "2.4")):
        assert f'<th scope="row">{name}</th><td>{value}</td>' in text
    assert "on mill, commit <code>abc123</code>" in text


def test_runtime_knobs_are_shown_apart_from_what_decides(pages, store):
    artifact = make(store, knobs={"times": 7})
    record = artifact.record
    runtime = Record(**{**vars(record), "config": {"times": 7, "workers": 4}})
    publish(store, runtime, after=1, adopt=False)
    text = page_of(pages, artifact)
    assert "workers" not in text.partition('id="how"')[0]
    assert '<th scope="row">workers</th><td>4</td>' in text


def test_a_page_says_what_changed_since_the_nearest_artifact_before(pages, store):
    first = make(store, knobs={"times": 2, "word": "hum"}, minute=1)
    make(store, knobs={"times": 9, "word": "la"}, minute=2)
    third = make(store, knobs={"times": 5, "word": "hum"}, minute=3)
    make(store, knobs={"times": 5, "word": "hm"}, minute=4)
    text = page_of(pages, third)
    assert f"/hum/{first.record.identity.key}" in text
    assert '<th scope="row">hum.times</th><td>2</td><td>5</td>' in text
    assert "holds no earlier artifact of hum" in page_of(pages, first)


def test_lineage_goes_up_to_the_first_source_and_down_to_the_users(pages, store):
    raw = make(store, "ingest", files={"a": b"raw"})
    clean = make(store, "clean", inputs={"documents": raw}, files={"a": b"clean"})
    model = make(store, "train", inputs={"documents": clean}, files={"a": b"model"})
    up, down = page_of(pages, model), page_of(pages, raw)
    made_from = up.partition('id="from"')[2].partition('id="used"')[0]
    assert made_from.index(clean.record.identity.key) < made_from.index(raw.record.identity.key)
    used_by = down.partition('id="used"')[2]
    assert clean.record.identity.key in used_by
    assert model.record.identity.key not in used_by


def test_what_two_inputs_have_in_common_is_followed_once(pages, store):
    raw = make(store, "ingest", files={"a": b"raw"})
    clean = make(store, "clean", inputs={"documents": raw}, files={"a": b"clean"})
    words = make(store, "tokenizer", inputs={"documents": clean}, files={"a": b"words"})
    tokens = make(store, "shards", inputs={"documents": clean, "tokenizer": words}, files={"a": b"tokens"})
    made_from = page_of(pages, tokens).partition('id="from"')[2].partition('id="used"')[0]
    assert made_from.count(clean.record.identity.key) == 2
    assert made_from.count(raw.record.identity.key) == 1
    assert made_from.count("its page has its inputs") == 1


def test_a_chain_that_never_ends_is_followed_only_so_far(store):
    last = make(store, "index", files={"a": b"0"})
    for day in range(1, 40):
        last = make(store, "index", knobs={"day": day}, inputs={"yesterday": last}, files={"a": b"%d" % day})
    found, depth = lineage.sources_of(store, last.record), 0
    while found:
        depth, folded, found = depth + 1, found[0].folded, found[0].inputs
    assert depth == lineage.MAX_DEPTH + 1
    assert folded


def test_an_input_that_was_made_again_with_other_content_is_shown_as_it_was_read(pages, store):
    raw = make(store, "ingest", files={"a": b"first"}, minute=1)
    clean = make(store, "clean", inputs={"documents": raw}, minute=2)
    make(store, "ingest", files={"a": b"second"}, minute=3)
    assert "2026-01-01 00:01 UTC" in page_of(pages, clean).partition('id="from"')[2]
    (store.artifact("ingest", raw.record.identity.key) / "records" / "1.json").unlink()
    assert "no longer in this store" in page_of(pages, clean)


def test_a_damaged_artifact_is_called_so(pages, store):
    artifact = make(store, files={"tune.txt": b"hum", "words.txt": b"la"})
    (artifact.path / "words.txt").unlink()
    assert "words.txt is gone" in page_of(pages, artifact)


# Excerpts


def dropped(number, reason, text="text"):
    return {"drop_reason": reason, "source": "books", "excerpt": f"{number} {text}"}


def test_dropped_documents_are_shown_with_their_reason_a_few_of_each_and_cut(pages, store):
    rows = [dropped(number, "too_short", "x" * 400) for number in range(200)] + [dropped(7, "not_translated", "春風")]
    artifact = make(store, "clean", files={"report/dropped-00000.parquet": parquet(rows)})
    text = page_of(pages, artifact)
    assert "春風" in text
    assert text.count("<td>too_short</td>") == excerpts.MAX_EACH
    assert "x" * 298 in text
    assert "x" * 299 not in text


def test_at_most_twenty_samples_are_read_from_a_large_report(store):
    rows = [dropped(number, f"reason {number}") for number in range(3000)]
    artifact = make(store, "clean", files={"report/dropped-00000.parquet": parquet(rows)})
    assert len(excerpts.samples_of(artifact)) == excerpts.MAX_SAMPLES


def test_a_report_without_rows_shows_none(store):
    schema = pa.schema([(name, pa.string()) for name in ("drop_reason", "source", "excerpt")])
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    artifact = make(store, "clean", files={"report/dropped-00000.parquet": sink.getvalue().to_pybytes()})
    assert excerpts.samples_of(artifact) == []


def test_malformed_rows_of_the_sources_are_shown(pages, store):
    row = {"file": "a.jsonl", "row": 3, "reason": "no JSON", "excerpt": "{oops"}
    report = json.dumps({"books": {"malformed_shown": [row]}}).encode()
    text = page_of(pages, make(store, "ingest", files={excerpts.INGEST: report}))
    assert "books a.jsonl:3" in text
    assert "{oops" in text


def test_a_file_that_the_record_does_not_name_is_not_read(store):
    artifact = make(store, "train")
    (artifact.path / "report").mkdir()
    (artifact.path / excerpts.CURVE).write_text('{"step": 1, "loss": 3.0}\n')
    assert excerpts.curve_of(artifact) == []


def test_a_long_curve_is_thinned_but_keeps_every_validation(store, monkeypatch):
    lines = [
        json.dumps({"step": step, "loss": 1.0} | ({"validation_loss": 2.0} if step % 97 == 0 else {}))
        for step in range(1000)
    ]
    content = ("\n".join(lines) + "\n").encode()
    artifact = make(store, "train", files={excerpts.CURVE: content})
    monkeypatch.setattr(excerpts, "MAX_BYTES", len(content) // 10)
    kept = excerpts.curve_of(artifact)
    assert len(kept) < 120
    assert len(excerpts.points_of(kept, "validation_loss")) == 11


# What a page never does


def test_texts_from_outside_are_escaped_everywhere(pages, store):
    evil = "<script>alert(1)</script>\"'><img src=x>"
    rows = [{"drop_reason": evil, "source": evil, "excerpt": evil}]
    result = {"by_source": {evil: 1, "b": 2}, "note": evil, "continuations": [{"prompt": evil, "text": evil}]}
    knobs = {"word": evil, evil: {"word": evil}}
    artifact = make(
        store,
        "clean",
        knobs=knobs,
        result=result,
        measured={evil: 1},
        files={"report/dropped-0.parquet": parquet(rows)},
    )
    text = page_of(pages, artifact) + pages.get(f"{URL_PREFIX}/").text
    assert "&lt;script&gt;" in text
    assert "<script" not in text
    assert "<img" not in text


def test_a_page_loads_nothing_and_runs_nothing(pages, store):
    answer = pages.get(f"{URL_PREFIX}/hum/{make(store).record.identity.key}")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not re.search(r"<(script|link|img|iframe|object)|\b(src|srcset|style)=|url\(|@import", answer.text)
    assert all(href.startswith("/airflow/headrace/") for href in re.findall(r'href="([^"]*)"', answer.text))


# The way there


def test_a_task_links_to_the_page_of_its_artifact_inside_the_ui(monkeypatch):
    assert address_of(f"/data/store/train/{KEY}") == f"/plugin/artifacts/headrace/train/{KEY}"
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/team/")
    assert address_of(f"s3://bucket/train/{KEY}") == f"/team/plugin/artifacts/team/headrace/train/{KEY}"


def test_a_task_without_an_artifact_has_no_link():
    assert ArtifactLink().get_link(object(), ti_key=None) == ""


def test_loading_the_plugin_imports_neither_the_pages_nor_what_they_need(tmp_path):
    """Every process of Airflow loads it; only the API server shows pages."""
    code = (
        "import airflow.plugins_manager, sys; before = set(sys.modules); import plugins.plugin;"
        "print([one for one in set(sys.modules) - before if one.split('.')[0] in ('fastapi', 'jinja2', 'pyarrow')"
        " or one.startswith(('plugins.views', 'airflow.api_fastapi'))])"
    )
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"
