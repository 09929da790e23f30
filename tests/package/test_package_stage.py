"""The package stage: one bento per content, complete, registered, and without torch."""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
import tarfile

import pytest
from upath import UPath

from mlflow import MlflowClient
from tasks.core.errors import DataError, ServiceError
from tasks.package import build, registry, stage
from tasks.package.archive import write_archive
from tasks.package.card import card_of
from tasks.package.config import PackageConfig
from tasks.package.service.limits import Limits
from tests import tiny_release as release


@pytest.fixture(scope="module")
def about() -> dict[str, object]:
    return json.loads((release.packaged() / "bento.json").read_text())


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> UPath:
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(str(release.packaged() / "headrace-lm.bento")) as archive:
        archive.extractall(folder, filter="data")
    return UPath(folder)


def test_the_same_content_gives_the_same_bytes(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    release.packaged()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", release.registry_uri())
    again = UPath(tmp_path) / "again"
    stage.run(release.PACKAGE, release.compressed(), release.evaluation(), out=again)
    for name in ("headrace-lm.bento", "bento.json"):
        assert (again / name).read_bytes() == (release.packaged() / name).read_bytes()
    assert json.loads((again / "report" / "registration.json").read_text())["reused"]


def test_what_is_inside_decides_the_version(tmp_path: object) -> None:
    found = set()
    for limits in (release.PACKAGE, PackageConfig(max_tokens=65)):
        folder = UPath(tmp_path) / str(limits.max_tokens)
        folder.mkdir()
        build.gather(release.local(release.compressed()), Limits(**vars(limits)), release.local(folder))
        found.add(build.digest_of(release.local(folder)))
        again = build.digest_of(release.local(folder))
        assert again in found
    assert len(found) == 2


def test_the_description_lists_every_file_of_the_archive(about: dict[str, object], unpacked: UPath) -> None:
    inside = {
        path.relative_to(unpacked).as_posix(): path.stat().st_size for path in unpacked.rglob("*") if path.is_file()
    }
    assert {one["path"]: one["size"] for one in about["files"]} == inside
    assert about["num_files"] == len(inside)


def test_the_bento_holds_model_tokenizer_source_and_card(unpacked: UPath) -> None:
    source = unpacked / "src"
    for name in ("model/int8/model.onnx", "model/tokenizer.json", "tasks/lm/onnx_generation.py"):
        assert (source / name).is_file()
    int8 = release.compressed() / "int8" / "model.onnx"
    assert (source / "model/int8/model.onnx").read_bytes() == int8.read_bytes()
    assert not (source / "model/fp32").exists()
    assert "headrace-lm" in (unpacked / "README.md").read_text()


def test_requirements_are_pinned_and_know_no_torch(about: dict[str, object], unpacked: UPath) -> None:
    assert all("==" in one for one in about["requirements"])
    text = (unpacked / "env/python/requirements.txt").read_text()
    assert set(about["requirements"]) <= set(text.split())
    assert not {"torch", "transformers", "optimum"} & {one.split("==")[0] for one in text.split()}


def test_nothing_of_the_machine_or_the_time_is_inside(unpacked: UPath) -> None:
    for path in unpacked.rglob("*"):
        assert not path.is_file() or str(build.REPOSITORY).encode() not in path.read_bytes(), path
    with tarfile.open(str(release.packaged() / "headrace-lm.bento")) as archive:
        assert len({(one.mtime, one.uid, one.gid, one.uname) for one in archive}) == 1


def test_the_source_runs_where_torch_does_not_exist(unpacked: UPath) -> None:
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('torch', 'transformers', 'optimum', 'onnx')))\n"
        "import tasks.package.service.service as s\n"
        "s.Completions.inner(); print(len(s.app.state.engine.encode('The gate', 8)), s.__file__)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=unpacked / "src", env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert str(unpacked) in done.stdout


def test_it_is_the_challenger_of_the_registry(about: dict[str, object], tmp_path: object) -> None:
    release.packaged()
    client = MlflowClient(release.registry_uri())
    version = client.get_model_version_by_alias("headrace-lm", "challenger")
    assert version.tags["headrace.bento"] == about["tag"]
    assert version.tags["headrace.bento_sha256"] == about["sha256"]
    assert float(version.tags["headrace.bits_per_byte"]) == release.SCORES["total"]["bits_per_byte"]["model"]
    assert version.tags["headrace.artifact"] == str(release.packaged())
    kept = client.download_artifacts(version.run_id, "bento/headrace-lm.bento", str(tmp_path))
    assert UPath(kept).read_bytes() == (release.packaged() / "headrace-lm.bento").read_bytes()
    assert client.get_run(version.run_id).info.status == "FINISHED"


def test_other_bytes_are_a_new_version_and_take_the_alias(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.chdir(tmp_path)
    client = MlflowClient(uri)
    experiment = client.create_experiment("lifecycle", artifact_location=f"file://{tmp_path}/artifacts")
    run = client.create_run(experiment)
    monkeypatch.setattr(registry.tracking, "current_run_id", lambda: run.info.run_id)
    bento = tmp_path / "m.bento"
    found = []
    for content in (b"one", b"two", b"one"):
        bento.write_bytes(content)
        found.append(registry.register("m", bento, content.decode(), {}))
    assert [(one.version, one.reused) for one in found] == [("1", False), ("2", False), ("1", True)]
    assert str(client.get_model_version_by_alias("m", "challenger").version) == "1"
    assert client.get_model_version("m", "2").run_id == run.info.run_id
    assert client.get_run(run.info.run_id).info.status == "RUNNING"  # the runner's own run is not ours to end


def test_a_registry_that_is_down_is_a_missing_service(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    bento = tmp_path / "m.bento"
    bento.write_bytes(b"x")
    with pytest.raises(ServiceError, match=r"registry at http://127\.0\.0\.1:1 did not take m"):
        registry.register("m", bento, "d", {})


def test_missing_files_of_the_inputs_are_all_named(tmp_path: object) -> None:
    empty = UPath(tmp_path) / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match=r"config\.json.*int8/model\.onnx.*evaluation\.json"):
        stage.run(release.PACKAGE, empty, empty, out=UPath(tmp_path) / "out")


@pytest.mark.parametrize(("against", "told"), [(None, False), ({"ratio": 0.98, "low": 0.97, "high": 0.99}, True)])
def test_the_card_states_the_comparison_with_the_champion_where_there_is_one(against, told) -> None:
    card = card_of("m:1", Limits(**vars(release.PACKAGE)), release.SCORES | {"vs_champion": against}, {})
    assert ("| vs_champion.high | 0.99 |" in card) == told
    assert ("vs_champion" in card) == told


def test_the_card_states_the_numbers_it_was_given() -> None:
    card = card_of("m:1", Limits(**vars(release.PACKAGE)), release.SCORES, {"size_ratio": 0.2654321})
    assert "| total.bits_per_byte.model | 1.25 |" in card
    assert "| by_language.zh.bits_per_byte.model | 1.5 |" in card
    assert "| size_ratio | 0.265432 |" in card


def test_an_archive_does_not_depend_on_times_or_modes(tmp_path: object) -> None:
    made = []
    for place, (mode, at) in enumerate(((0o600, 1), (0o644, 1_700_000_000))):
        folder = tmp_path / str(place)
        (folder / "b").mkdir(parents=True)
        for name in ("b/2", "a"):
            (folder / name).write_text(name)
            (folder / name).chmod(mode)
            os.utime(folder / name, (at, at))
        write_archive(folder, tmp_path / f"{place}.bento")
        made.append((tmp_path / f"{place}.bento").read_bytes())
    assert made[0] == made[1]
    assert lzma.decompress(made[0])
