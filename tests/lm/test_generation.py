"""What a prompt is answered does not depend on its neighbours, and equals what transformers generates alone."""

from __future__ import annotations

import copy
from collections import Counter

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models
from tokenizers.decoders import ByteLevel
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from tasks.lm.generation import Decoding, drawn, generate, ids_with

EOS, VOCAB, CONTEXT = 0, 60, 64


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Threads only cost on a model this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        initializer_range=0.4,
        pad_token_id=EOS,
        bos_token_id=EOS,
        eos_token_id=EOS,
    )
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def prompts():
    rng = np.random.default_rng(5)
    return [[EOS, *rng.integers(1, VOCAB, size=length).tolist()] for length in (1, 30, 4, 4, 17, 2, 9)]


def alone(model, prompt, **options):
    """transformers' own greedy generation of one prompt."""
    ids = torch.tensor([prompt])
    found = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, **options)
    return found[0, len(prompt) :].tolist()


def test_batched_greedy_equals_transformers_one_at_a_time(model, prompts):
    batched = generate(model, prompts, Decoding(20), stop_ids={EOS}, max_length=CONTEXT)
    assert batched == [alone(model, prompt, max_new_tokens=20, eos_token_id=EOS) for prompt in prompts]
    assert len({tuple(one) for one in batched}) > 3


def test_a_model_with_absolute_positions_is_answered_the_same_in_a_batch(prompts):
    torch.manual_seed(4)
    sizes = {"vocab_size": VOCAB, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT}
    model = GPT2LMHeadModel(GPT2Config(**sizes, initializer_range=0.4, pad_token_id=EOS, eos_token_id=EOS)).eval()
    batched = generate(model, prompts, Decoding(20), stop_ids={EOS}, max_length=CONTEXT)
    assert batched == [alone(model, prompt, max_new_tokens=20, eos_token_id=EOS) for prompt in prompts]


def test_padding_is_not_a_token_that_can_be_repeated(model, prompts):
    favours_padding = copy.deepcopy(model)
    free = generate(model, prompts, Decoding(20), stop_ids=set(), max_length=CONTEXT)
    likely = Counter(token for answer in free for token in answer).most_common(1)[0][0]
    with torch.no_grad():
        favours_padding.lm_head.weight[EOS] = 1.01 * favours_padding.lm_head.weight[likely]
    without_eos = [prompt[1:] for prompt in prompts]
    batched = generate(favours_padding, without_eos, Decoding(8, repetition_penalty=1.3), stop_ids=set(), max_length=60)
    options = {"max_new_tokens": 8, "repetition_penalty": 1.3, "eos_token_id": None}
    assert batched == [alone(favours_padding, prompt, **options) for prompt in without_eos]
    assert any(EOS in answer for answer in batched)


def test_the_repetition_penalty_equals_transformers_one_at_a_time(model, prompts):
    batched = generate(model, prompts, Decoding(20, repetition_penalty=1.3), stop_ids=set(), max_length=CONTEXT)
    options = {"max_new_tokens": 20, "repetition_penalty": 1.3, "eos_token_id": None}
    assert batched == [alone(model, prompt, **options) for prompt in prompts]
    assert batched != generate(model, prompts, Decoding(20), stop_ids=set(), max_length=CONTEXT)


@pytest.mark.parametrize("decoding", [Decoding(12, temperature=0.9, top_p=0.8, seed=4), Decoding(12)])
def test_a_prompt_is_answered_the_same_among_others_and_in_any_place(model, prompts, decoding, monkeypatch):
    together = generate(model, prompts, decoding, stop_ids={EOS, 7}, max_length=CONTEXT)
    monkeypatch.setattr("tasks.lm.generation.BATCH_PROMPTS", 1)
    assert generate(model, prompts, decoding, stop_ids={EOS, 7}, max_length=CONTEXT) == together


def test_an_answer_ends_with_its_stop_token_and_holds_no_other(model, prompts):
    free = generate(model, prompts, Decoding(20), stop_ids=set(), max_length=CONTEXT)
    stop = free[0][5]
    stopped = generate(model, prompts, Decoding(20), stop_ids={stop}, max_length=CONTEXT)
    for answer, whole in zip(stopped, free, strict=True):
        assert answer == whole[: whole.index(stop) + 1 if stop in whole else None]


def test_a_stop_token_in_the_prompt_is_not_penalised(model):
    rng = np.random.default_rng(6)
    asked = [rng.integers(1, VOCAB, size=12).tolist() for _ in range(60)]
    likeliest = generate(model, asked, Decoding(1), stop_ids=set(), max_length=CONTEXT)
    prompt, token = next((p, a[0]) for p, a in zip(asked, likeliest, strict=True) if a[0] in p)
    penalised = Decoding(1, repetition_penalty=50.0)
    assert generate(model, [prompt], penalised, stop_ids={token}, max_length=CONTEXT) == [[token]]
    assert generate(model, [prompt], penalised, stop_ids=set(), max_length=CONTEXT) != [[token]]


def test_each_prompt_has_its_own_budget_up_to_the_context(model, prompts):
    answers = generate(model, prompts, Decoding(50), stop_ids=set(), max_length=40)
    assert [len(one) for one in answers] == [min(50, 40 - len(prompt)) for prompt in prompts]


def test_the_seed_decides_what_is_drawn(model, prompts):
    one, again, other = (
        generate(model, prompts, Decoding(8, temperature=1.0, seed=seed), stop_ids=set(), max_length=CONTEXT)
        for seed in (1, 1, 2)
    )
    assert one == again != other


def test_drawing_follows_the_probabilities_of_the_nucleus():
    probability = torch.tensor([0.5, 0.25, 0.15, 0.1])
    draws = (torch.arange(10_000, dtype=torch.float64) + 0.5) / 10_000
    tokens = drawn(probability.log().expand(len(draws), -1), 0.8, draws)
    share = torch.bincount(tokens, minlength=4) / len(draws)
    expected = torch.tensor([0.5, 0.25, 0.15, 0]) / 0.9
    torch.testing.assert_close(share, expected, atol=2e-4, rtol=0)


def test_a_nucleus_smaller_than_the_likeliest_token_is_greedy():
    logits = torch.tensor([[0.1, 2.0, 1.0]])
    assert drawn(logits, 0.01, torch.tensor([0.999], dtype=torch.float64)).tolist() == [1]


@pytest.mark.parametrize("draw", [0.0, 1 - 2**-53])
def test_the_ends_of_the_unit_interval_draw_a_token_of_the_nucleus(draw):
    logits = torch.tensor([[3.0, 2.0, -1.0, -float("inf")]])
    assert drawn(logits, 1.0, torch.tensor([draw], dtype=torch.float64)).item() in (0, 1, 2)


@pytest.mark.parametrize("length", [0, 40, 41])
def test_a_prompt_without_room_for_an_answer_is_refused(model, length):
    with pytest.raises(ValueError, match=r"prompt 1 has .* must be from 1 to 39"):
        generate(model, [[1], [1] * length], Decoding(4), stop_ids=set(), max_length=40)


def test_no_prompts_have_no_answers(model):
    assert generate(model, [], Decoding(4), stop_ids=set(), max_length=CONTEXT) == []


def test_a_newline_is_found_inside_longer_tokens():
    vocab = {"<|endoftext|>": 0, "a": 1, "Ċ": 2, "aĊ": 3, "ĊĊ": 4, "Ġa": 5}
    tokenizer = Tokenizer(models.BPE(vocab, []))
    tokenizer.decoder = ByteLevel()
    assert ids_with(tokenizer, "\n") == {2, 3, 4}
