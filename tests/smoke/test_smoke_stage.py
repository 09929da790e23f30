"""The smoke check: passes on what was packaged, and notices what is not right."""

from __future__ import annotations

import json
import shutil

import pytest
from upath import UPath

from tasks.core.errors import DataError, GateError, ServiceError
from tasks.smoke import server, stage
from tasks.smoke.config import SmokeConfig
from tests import tiny_release as release

CONFIG = SmokeConfig(prompts=("The gate", "春眠", "English: Open the gate.\nChinese:"), latency_requests=2)


def test_the_packaged_service_answers_what_the_model_answers(tmp_path: object) -> None:
    found = stage.run(CONFIG, release.packaged(), release.compressed(), out=UPath(tmp_path) / "out")
    assert found.num_prompts == 3
    assert found.answers["English: Open the gate.\nChinese:"].strip().startswith("打开闸门")
    assert json.loads((tmp_path / "out" / "smoke.json").read_text())["answers"] == found.answers


def test_it_runs_every_time() -> None:
    assert stage.CACHED is False


def test_another_models_answers_are_refused(tmp_path: object) -> None:
    other = UPath(tmp_path) / "other"
    shutil.copytree(release.compressed().path, other.path)
    shutil.copyfile(other / "fp32" / "model.onnx", other / "int8" / "model.onnx")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"eos_token_id": 5}))
    with pytest.raises(GateError, match="expected Answer"):
        stage.run(CONFIG, release.packaged(), other, out=UPath(tmp_path) / "out")


def test_a_file_that_is_no_bento_is_an_error_with_what_bentoml_said(tmp_path: object) -> None:
    broken = UPath(tmp_path) / "broken"
    shutil.copytree(release.packaged().path, broken.path)
    (broken / "headrace-lm.bento").write_bytes(b"not a bento")
    with pytest.raises(DataError, match="bentoml cannot import it"):
        stage.run(CONFIG, broken, release.compressed(), out=UPath(tmp_path) / "out")


def test_an_artifact_without_a_bento_is_named(tmp_path: object) -> None:
    with pytest.raises(DataError, match="holds no bento"):
        stage.run(CONFIG, UPath(tmp_path), release.compressed(), out=UPath(tmp_path) / "out")


def test_a_service_that_ends_shows_its_last_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENTOML_CONFIG", "/nowhere/at/all.yaml")
    about = stage.description_of(release.local(release.packaged()))
    monkeypatch.setattr(server, "import_bento", lambda *_: None)
    bento = release.local(release.packaged()) / about["file"]
    with (
        pytest.raises(ServiceError, match=r"ended with \d+ before it was ready; it said:\n(.|\n)*\w"),
        server.serving(bento, about["tag"], start_timeout_s=60),
    ):
        pass


def test_a_service_that_is_never_ready_is_stopped_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    about = stage.description_of(release.local(release.packaged()))
    bento = release.local(release.packaged()) / about["file"]
    homes = []
    environment_with = server.environment_with
    monkeypatch.setattr(server, "environment_with", lambda home: homes.append(home) or environment_with(home))
    with (
        pytest.raises(ServiceError, match=r"not ready within 0\.2 s"),
        server.serving(bento, about["tag"], start_timeout_s=0.2),
    ):
        pass
    assert len(homes) == 1
    assert server.processes_of(homes[0]) == []
