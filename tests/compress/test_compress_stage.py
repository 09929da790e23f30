"""The compress stage on a tiny trained model."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import onnx
import pytest
import torch
from transformers import AutoModelForCausalLM
from upath import UPath

from tasks.compress import stage
from tasks.core import events
from tasks.core.errors import DataError, GateError
from tasks.lm.onnx_generation import OnnxModel
from tests import tiny_release as release


class Measured:
    """Keeps the metrics a stage reports."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def metric(self, name: str, value: float, step: int | None) -> None:  # noqa: ARG002
        self.values[name] = value

    def progress(self, done: float, total: float | None, unit: str) -> None: ...
    def drop(self, reason: str, count: int) -> None: ...
    def sample(self, name: str, text: str) -> None: ...
    def note(self, message: str) -> None: ...


@pytest.fixture(scope="module")
def contracts() -> dict[str, float]:
    return json.loads((release.compressed() / "contracts.json").read_text())


def test_every_linear_layer_is_quantised(contracts: dict[str, float]) -> None:
    # Two blocks of seven projections and the output layer.
    assert contracts["quantized_layers"] == contracts["linear_layers"] == 2 * 7 + 1


def test_the_mean_nll_is_the_loss_torch_reports(contracts: dict[str, float]) -> None:
    network = AutoModelForCausalLM.from_pretrained(str(release.model())).eval()
    tokens = torch.from_numpy(release.corpus(2, 40))
    length = release.CONTEXT
    starts = np.linspace(0, len(tokens) - length, 4).astype(int)
    batch = torch.stack([tokens[start : start + length] for start in starts])
    with torch.inference_mode():
        expected = network(input_ids=batch, labels=batch).loss.item()
    assert contracts["torch_nll"] == pytest.approx(expected, rel=1e-5)
    assert contracts["fp32_nll"] == pytest.approx(expected, rel=1e-5)
    assert contracts["num_tokens"] == batch[:, 1:].numel()


def test_int8_logits_are_near_torch_but_not_the_same() -> None:
    tokens = release.corpus(3, 5)[None, :64]
    network = AutoModelForCausalLM.from_pretrained(str(release.model())).eval()
    with torch.inference_mode():
        expected = network(input_ids=torch.from_numpy(tokens)).logits.numpy()
    found = OnnxModel(release.local(release.compressed()), "int8").logits(tokens)
    assert 1e-3 < np.abs(found - expected).max() < 0.1 * np.ptp(expected)


def test_weights_are_int8_and_products_of_activations_are_not(contracts: dict[str, float]) -> None:
    graph = onnx.load(str(release.compressed() / "int8" / "model.onnx")).graph
    floats = sum(
        np.prod(one.dims) for one in graph.initializer if one.data_type == onnx.TensorProto.FLOAT and len(one.dims) > 1
    )
    assert floats == 0
    # Two products per attention and one in the rotary embedding stay in floating point.
    assert sum(node.op_type == "MatMul" for node in graph.node) == 2 * 2 + 1


def test_sizes_are_those_of_the_files(contracts: dict[str, float]) -> None:
    int8 = (release.compressed() / "int8" / "model.onnx").stat().st_size
    trained = (release.model() / "model.safetensors").stat().st_size
    assert contracts["size_ratio"] == pytest.approx(int8 / trained, abs=1e-4)


def test_the_same_model_gives_the_same_bytes(tmp_path: object) -> None:
    again = UPath(tmp_path) / "another place" / "模型"
    stage.run(release.small_compress_config(), release.model(), release.shards(), out=again)
    assert digests(again) == digests(release.compressed())
    assert {"fp32/model.onnx", "int8/model.onnx", "config.json", "tokenizer.json"} < set(digests(again))


def digests(folder: UPath) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_speed_is_measured_but_no_result(tmp_path: object, contracts: dict[str, float]) -> None:
    heard = Measured()
    with events.listening(heard):
        stage.run(release.small_compress_config(), release.model(), release.shards(), out=UPath(tmp_path) / "out")
    assert {f"tokens_per_s/{name}" for name in ("torch", "onnx_fp32", "int8")} < set(heard.values)
    assert all(value > 0 for value in heard.values.values())
    assert not [name for name in contracts if "per_s" in name or "speed" in name]


@pytest.mark.parametrize(("weights", "expected"), [("uint8", onnx.TensorProto.UINT8), ("int8", onnx.TensorProto.INT8)])
def test_the_type_of_the_weights_is_a_knob(tmp_path: object, weights: str, expected: int) -> None:
    # Signed weights saturate on processors without VNNI, which costs a percent or more: only the type is of interest.
    config = release.small_compress_config(weights=weights, max_perplexity_increase=10.0)
    stage.run(config, release.model(), release.shards(), out=UPath(tmp_path) / "out")
    graph = onnx.load(str(tmp_path / "out" / "int8" / "model.onnx")).graph
    matrices = {one.data_type for one in graph.initializer if len(one.dims) == 2 and "MatMul" in one.name}
    assert matrices == {expected}


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"max_logit_diff": 1e-9}, "differ from torch by"),
        ({"max_perplexity_increase": 1e-9}, "raises validation perplexity"),
    ],
)
def test_a_broken_contract_refuses_the_model(tmp_path: object, knobs: dict[str, float], said: str) -> None:
    with pytest.raises(GateError, match=said):
        stage.run(
            release.small_compress_config(**knobs), release.model(), release.shards(), out=UPath(tmp_path) / "out"
        )


def test_a_quantiser_that_finds_nothing_is_noticed(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(source: object, target: object, **_: object) -> None:
        target.mkdir()
        (target / "model.onnx").write_bytes((source / "model.onnx").read_bytes())

    monkeypatch.setattr(stage, "quantize", nothing)
    with pytest.raises(GateError, match="0 of 15 linear layers are quantised"):
        stage.run(release.small_compress_config(), release.model(), release.shards(), out=UPath(tmp_path) / "out")


def test_missing_files_of_the_model_are_all_named(tmp_path: object) -> None:
    bare = UPath(tmp_path) / "model"
    bare.mkdir()
    (bare / "config.json").write_text("{}")
    with pytest.raises(DataError, match=r"tokenizer\.json.*model\.safetensors"):
        stage.run(release.small_compress_config(), bare, release.shards(), out=UPath(tmp_path) / "out")


def test_an_empty_validation_split_is_an_error_that_names_it(tmp_path: object) -> None:
    empty = release.write_shards(UPath(tmp_path) / "shards", np.zeros(0, np.int64))
    with pytest.raises(DataError, match="validation split holds 0 tokens"):
        stage.run(release.small_compress_config(), release.model(), empty, out=UPath(tmp_path) / "out")


def test_a_validation_split_shorter_than_a_window_is_used_whole(tmp_path: object) -> None:
    short = release.write_shards(UPath(tmp_path) / "shards", release.corpus(4, 1)[:20])
    found = stage.run(release.small_compress_config(), release.model(), short, out=UPath(tmp_path) / "out")
    assert found.num_tokens == 19
