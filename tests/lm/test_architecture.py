"""A model comes back from its folder as it was."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

from tasks.core.errors import DataError
from tasks.lm.architecture import Shape, build_model, load_model

SHAPE = Shape(
    num_layers=2, hidden_size=16, num_heads=2, num_kv_heads=1, ffn_size=24, sequence_length=8, tie_embeddings=True,
    initializer_range=0.02, zero_residual=False,
)  # fmt: skip


@pytest.fixture
def saved(tmp_path):
    model = build_model(SHAPE, vocab_size=30, eos_id=0, seed=7)
    model.save_pretrained(tmp_path / "saved")
    return model, tmp_path / "saved"


def test_a_loaded_model_has_the_saved_weights_to_the_bit_and_is_ready_to_train(saved):
    model, folder = saved
    loaded = load_model(folder)
    assert loaded.state_dict().keys() == model.state_dict().keys()
    assert all(torch.equal(loaded.state_dict()[name], weights) for name, weights in model.state_dict().items())
    assert loaded.training
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}


def test_a_loaded_model_is_saved_as_the_same_bytes(saved, tmp_path):
    _, folder = saved
    load_model(folder).save_pretrained(tmp_path / "again")
    for file in folder.iterdir():
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()


def test_pickled_weights_are_not_read(saved):
    model, folder = saved
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(DataError, match=r"no file named model\.safetensors"):
        load_model(folder)


def test_a_missing_weight_is_named_instead_of_made_up(saved):
    _, folder = saved
    weights = load_file(folder / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match=r"missing_keys: \['model\.norm\.weight'\]"):
        load_model(folder)
