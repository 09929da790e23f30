"""The contracts themselves, on models that break them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from tasks.compress import contracts
from tasks.compress.config import CompressConfig
from tasks.core.errors import GateError
from tasks.lm.onnx_generation import OnnxModel
from tests import tiny_release as release

CONFIG = CompressConfig()
GOOD = contracts.Parity(max_logit_diff=1e-6, torch_nll=1.0, fp32_nll=1.0, int8_nll=1.001, num_tokens=10)


class WithoutMask(OnnxModel):
    """An export that ignores the attention mask."""

    def step(self, ids_BT, mask_BS, positions_BT, past):
        return super().step(ids_BT, np.ones_like(mask_BS), positions_BT, past)


class WithoutPositions(OnnxModel):
    """An export with other positions than the trained model's: twice as far apart, in a batch only."""

    def step(self, ids_BT, mask_BS, positions_BT, past):
        return super().step(ids_BT, mask_BS, positions_BT * min(2, len(ids_BT)), past)


def prompts() -> list[list[int]]:
    windows = release.corpus(5, 20)[: 4 * 60].reshape(4, 60)
    return contracts.prompts_of(windows, 4, 60)


def test_prompts_have_rising_lengths_from_one_token() -> None:
    assert [len(prompt) for prompt in prompts()] == [1, 20, 40, 60]


def test_a_good_export_passes_the_padding_contract() -> None:
    model = OnnxModel(release.local(release.compressed()), "fp32")
    diff, ties = contracts.check_padding(model, prompts(), CONFIG)
    assert diff < 1e-4
    assert ties == 0


class WrongInTheSecondToken(OnnxModel):
    """A batch whose cache is wrong: the first token is right, what follows is not."""

    def step(self, ids_BT, mask_BS, positions_BT, past):
        logits, present = super().step(ids_BT, mask_BS, positions_BT, past)
        if len(ids_BT) > 1 and ids_BT.shape[1] == 1:
            logits = -logits
        return logits, present


def test_continuations_that_part_are_refused() -> None:
    model = WrongInTheSecondToken(release.local(release.compressed()), "fp32")
    with pytest.raises(GateError, match="continues differently in a padded batch"):
        contracts.check_padding(model, prompts(), CONFIG)


@pytest.mark.parametrize("broken", [WithoutMask, WithoutPositions])
def test_an_export_that_minds_padding_is_refused(broken: type[OnnxModel]) -> None:
    model = broken(release.local(release.compressed()), "fp32")
    with pytest.raises(GateError, match="between a padded batch and the prompt alone"):
        contracts.check_padding(model, prompts(), CONFIG)


def test_two_tokens_that_are_as_likely_may_change_places() -> None:
    model = OnnxModel(release.local(release.compressed()), "fp32")
    prompt = prompts()[1]
    alone = contracts.greedy_batch(model, [prompt], 3)[0]
    gap = contracts.gap_where_they_part(model, prompt, alone, [alone[0], alone[1] + 1, alone[2]])
    logits = model.logits(np.array([[*prompt, alone[0]]]))[0, -1]
    assert gap == pytest.approx(logits[alone[1]] - logits[alone[1] + 1])


def test_good_numbers_pass() -> None:
    contracts.check_parity(GOOD, CONFIG)


@pytest.mark.parametrize(
    "change", [{"max_logit_diff": 1.0}, {"max_logit_diff": float("nan")}, {"int8_nll": 1.1}, {"int8_nll": float("nan")}]
)
def test_a_number_outside_its_band_or_no_number_is_refused(change: dict[str, float]) -> None:
    with pytest.raises(GateError):
        contracts.check_parity(dataclasses.replace(GOOD, **change), CONFIG)


@pytest.mark.parametrize(("found", "expected"), [(0, 0), (0, 29), (28, 29)])
def test_too_few_quantised_layers_are_refused(found: int, expected: int) -> None:
    with pytest.raises(GateError, match=f"{found} of {expected}"):
        contracts.check_quantized(found, expected, CONFIG)


def test_nats_are_those_of_torch() -> None:
    logits = np.random.default_rng(0).normal(size=(7, 11)).astype(np.float32)
    tokens = np.array([3, 1, 4, 1, 5, 9, 2])
    expected = torch.nn.functional.cross_entropy(
        torch.from_numpy(logits[:-1]).double(), torch.from_numpy(tokens[1:]), reduction="none"
    )
    assert contracts.nats(logits, tokens) == pytest.approx(expected.numpy(), rel=1e-12)
