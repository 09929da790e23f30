"""Generation on onnxruntime, held against torch and against SciPy."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from transformers import AutoModelForCausalLM
from transformers.generation.logits_process import TopPLogitsWarper

from tasks.lm.onnx_generation import OnnxModel, Sampler, Sampling, generate, greedy_batch, nucleus
from tests import tiny_release as release

LOGITS = np.array([2.0, 1.0, 0.5, -1.0, -3.0], np.float32)


@pytest.fixture(scope="module")
def model() -> OnnxModel:
    return OnnxModel(release.local(release.compressed()), "fp32")


@pytest.fixture(scope="module")
def prompts() -> list[list[int]]:
    tokens = release.tokenizer()
    return [[0, *tokens(text)["input_ids"]] for text in ("The", "春眠不覺", "English: Open the gate.\nChinese:")]


def test_importing_it_never_loads_torch() -> None:
    modules = "tasks.lm.onnx_generation, tasks.lm.completion_text"
    code = f"import sys, {modules}; print({{'torch', 'transformers'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_greedy_tokens_are_those_of_torch(model: OnnxModel, prompts: list[list[int]]) -> None:
    network = AutoModelForCausalLM.from_pretrained(str(release.model()))
    for prompt in prompts:
        expected = network.generate(torch.tensor([prompt]), max_new_tokens=30, do_sample=False, eos_token_id=0)
        expected = [token for token in expected[0, len(prompt) :].tolist() if token != 0]
        assert list(generate(model, prompt, Sampling(max_tokens=30))) == expected


def test_a_padded_batch_continues_as_each_prompt_alone(model: OnnxModel, prompts: list[list[int]]) -> None:
    alone = [list(generate(model, prompt, Sampling(max_tokens=20))) for prompt in prompts]
    assert greedy_batch(model, prompts, 20) == alone
    assert len({len(prompt) for prompt in prompts}) > 1


def test_generation_ends_at_the_context(model: OnnxModel) -> None:
    prompt = [5] * (release.CONTEXT - 3)
    assert len(list(generate(model, prompt, Sampling(max_tokens=50, ignore_end=True)))) == 3


@pytest.mark.parametrize("length", [0, release.CONTEXT])
def test_a_prompt_must_leave_room(model: OnnxModel, length: int) -> None:
    with pytest.raises(ValueError, match=f"got {length}"):
        next(generate(model, [1] * length, Sampling()))


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 0.9), (0.7, 0.6), (1.3, 0.99)])
def test_the_nucleus_is_that_of_transformers(temperature: float, top_p: float) -> None:
    scores = torch.from_numpy(LOGITS)[None] / temperature
    expected = TopPLogitsWarper(top_p)(torch.zeros((1, 1), dtype=torch.long), scores).softmax(-1)[0].numpy()
    assert nucleus(LOGITS, temperature, top_p) == pytest.approx(expected, abs=1e-6)


def test_drawn_tokens_follow_the_probabilities() -> None:
    draw = Sampler(Sampling(temperature=0.8, seed=11))
    counts = np.bincount([draw(LOGITS) for _ in range(4000)], minlength=len(LOGITS))
    expected = torch.softmax(torch.from_numpy(LOGITS).double() / 0.8, 0).numpy() * 4000
    assert chisquare(counts, expected).pvalue > 0.001


def test_the_seed_decides_what_is_drawn(model: OnnxModel, prompts: list[list[int]]) -> None:
    def drawn(seed: int) -> list[int]:
        return list(generate(model, prompts[0], Sampling(max_tokens=30, temperature=2.0, seed=seed)))

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_a_token_outside_the_nucleus_is_never_drawn() -> None:
    draw = Sampler(Sampling(temperature=1.0, top_p=0.5, seed=0))
    assert {draw(LOGITS) for _ in range(200)} == {0}
