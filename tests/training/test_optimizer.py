from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tasks.training.optimizer import MuonAdamW, divided, orthogonalised, parameter_groups

groups_of = partial(parameter_groups, momentum=0.95, betas=(0.9, 0.95))


def small_model(*, tied: bool = True) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50, hidden_size=16, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, tie_word_embeddings=tied,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def gradients(parameters: list[torch.Tensor], step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator)


def two_of(shapes: list[tuple[int, ...]]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    torch.manual_seed(1)
    ours = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    return ours, copy.deepcopy(ours)


@pytest.mark.parametrize("momentum", [0.95, 0.8])
def test_muon_in_bf16_takes_the_steps_of_torchs_own(momentum):
    ours, theirs = two_of([(24, 24), (64, 24), (24, 64)])
    group = {"params": ours, "lr": 0.03, "weight_decay": 0.1, "muon": True, "momentum": momentum}
    mine = MuonAdamW([group], dtype=torch.bfloat16)
    witness = torch.optim.Muon(theirs, lr=0.03, weight_decay=0.1, momentum=momentum, adjust_lr_fn="original")
    for step in range(5):
        gradients(ours, step)
        gradients(theirs, step)
        mine.step()
        witness.step()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-6)


@pytest.mark.parametrize("betas", [(0.9, 0.95), (0.6, 0.99)])
def test_adamw_takes_the_steps_of_torchs_own(betas):
    ours, theirs = two_of([(7,), (5, 3)])
    group = {"params": ours, "lr": 0.02, "weight_decay": 0.1, "muon": False, "betas": betas}
    mine = MuonAdamW([group], dtype=torch.float32)
    witness = torch.optim.AdamW(theirs, lr=0.02, betas=betas, weight_decay=0.1)
    for step in range(5):
        gradients(ours, step)
        gradients(theirs, step)
        mine.step()
        witness.step()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(32, 32), (96, 32), (32, 96)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_orthogonalised_matrices_keep_directions_and_lose_lengths(shape, dtype):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    made = orthogonalised(matrix, dtype).float()
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    along = (u.T @ made @ v.T).diagonal()
    assert along.min() > 0.6
    assert along.max() < 1.3


@pytest.mark.parametrize("tied", [True, False])
def test_only_matrices_of_the_blocks_go_to_muon(tied):
    model = small_model(tied=tied)
    groups = groups_of(model, matrix_lr=0.03, lr=0.02, weight_decay=0.1)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    muon, adamw = ([names[id(one)] for one in group["params"]] for group in groups)
    assert len(muon) == 2 * 7
    assert all(".layers." in name and "norm" not in name for name in muon)
    assert len(muon) + len(adamw) == len(names)
    assert [group["muon"] for group in groups] == [True, False]


def test_norms_and_embeddings_do_not_decay():
    groups = groups_of(small_model(), matrix_lr=None, lr=0.003, weight_decay=0.1)
    assert [(group["lr"], group["weight_decay"], group["muon"]) for group in groups] == [
        (0.003, 0.1, False),
        (0.003, 0.0, False),
    ]


def test_frozen_weights_are_in_no_group():
    model = small_model()
    for parameter in model.model.layers.parameters():
        parameter.requires_grad_(False)
    groups = groups_of(model, matrix_lr=0.03, lr=0.02, weight_decay=0.0)
    assert sum(len(group["params"]) for group in groups) == 2


def test_without_gradients_nothing_moves():
    ours, before = two_of([(8, 8), (8,)])
    MuonAdamW([{"params": ours, "lr": 1.0, "weight_decay": 0.5, "muon": False}], dtype=torch.float32).step()
    assert all(torch.equal(one, other) for one, other in zip(ours, before, strict=True))


def test_the_state_travels_through_a_state_dict():
    ours, theirs = two_of([(8, 8)])
    groups = [{"params": ours, "lr": 0.1, "weight_decay": 0.0, "muon": True}]
    mine = MuonAdamW(groups, dtype=torch.float32)
    gradients(ours, 0)
    mine.step()
    restored = MuonAdamW([{**groups[0], "params": theirs}], dtype=torch.float32)
    theirs[0].data.copy_(ours[0].data)
    restored.load_state_dict(copy.deepcopy(mine.state_dict()))
    for optimizer, parameters in ((mine, ours), (restored, theirs)):
        gradients(parameters, 1)
        optimizer.step()
    assert torch.equal(ours[0], theirs[0])


def test_work_is_divided_evenly_and_the_same_everywhere():
    costs = [9, 1, 4, 4, 1, 9]
    owners = divided(costs, 2)
    assert [sum(cost for cost, owner in zip(costs, owners, strict=True) if owner == one) for one in (0, 1)] == [14, 14]
    assert divided(costs, 2) == owners
