"""Every token is scored once, with the context its window promises, whatever else is in the batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tasks.lm.perplexity import batches_of, document_bounds, stream_bits, windows_of

EOS, VOCAB, CONTEXT = 0, 40, 16


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Threads only cost on a model this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        initializer_range=0.3,
    )
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def stream():
    rng = np.random.default_rng(0)
    documents = [rng.integers(1, VOCAB, size=length) for length in (5, 0, 40, 1, 16, 15, 17, 50)]
    return np.concatenate([np.append(one, EOS) for one in documents])


def naive_bits(model, stream, window, stride):
    """One token at a time: find the window that scores it, run it alone, read one logit row."""
    found = []
    for start, end in document_bounds(stream, EOS).tolist():
        padded = np.concatenate([[EOS], stream[start:end]])
        for place in range(end - start):
            begin = 0
            while place >= begin + window:
                begin += stride
            with torch.no_grad():
                logits = model(torch.tensor(padded[begin : place + 1])[None]).logits[0, -1].double()
            found.append(-float(logits.log_softmax(-1)[padded[place + 1]]) / np.log(2))
    return np.array(found)


@pytest.mark.parametrize(("window", "stride"), [(16, 1), (16, 8), (16, 16), (10, 3), (2, 1), (7, 7)])
def test_bits_equal_a_naive_loop_over_torch_logits(model, stream, window, stride):
    bits = stream_bits(model, stream, eos_id=EOS, window=window, stride=stride)
    np.testing.assert_allclose(bits, naive_bits(model, stream, window, stride), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("window", "stride"), [(16, 1), (16, 5), (16, 16), (3, 2)])
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 100])
def test_windows_score_every_token_exactly_once(length, window, stride):
    windows = list(windows_of(7, 7 + length, window, stride))
    scored = [token for one in windows for token in range(one.scored, one.end)]
    assert scored == list(range(7, 7 + length))
    assert all(one.length <= window for one in windows)


@pytest.mark.parametrize("stride", [1, 4, 16])
def test_a_token_has_the_promised_context_where_its_document_has_it(stride):
    for one in windows_of(0, 200, 16, stride):
        assert one.scored == 0 or one.scored - one.begin == 16 - stride


def test_a_stride_of_the_whole_window_is_the_plain_chunked_loss(model, stream):
    total = 0.0
    for start, end in document_bounds(stream, EOS).tolist():
        read = torch.tensor(np.concatenate([[EOS], stream[start:end]]))
        for begin in range(0, end - start, CONTEXT):
            chunk = read[begin : begin + CONTEXT + 1]
            with torch.no_grad():
                logits = model(chunk[None, :-1]).logits[0]
            total += float(torch.nn.functional.cross_entropy(logits, chunk[1:], reduction="sum"))
    bits = stream_bits(model, stream, eos_id=EOS, window=CONTEXT, stride=CONTEXT)
    assert bits.sum() * np.log(2) == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("batch_tokens", [1, 33, 100, 10_000])
def test_padding_and_neighbours_change_no_score(model, stream, batch_tokens):
    bits = stream_bits(model, stream, eos_id=EOS, window=16, stride=5, batch_tokens=batch_tokens)
    alone = [
        stream_bits(model, stream[start:end], eos_id=EOS, window=16, stride=5, batch_tokens=1)
        for start, end in document_bounds(stream, EOS).tolist()
    ]
    assert len(bits) == len(stream)
    np.testing.assert_allclose(bits, np.concatenate(alone), rtol=1e-5, atol=1e-5)


def test_more_context_helps_a_model_that_copies(stream):
    """A model whose logits favour what stood four tokens earlier: with stride 1 it sees it more often."""

    class Copies(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))

        def forward(self, input_ids, logits_to_keep, **_):
            earlier = torch.nn.functional.pad(input_ids, (3, 0))[:, :-3]
            logits = 5.0 * torch.nn.functional.one_hot(earlier, VOCAB) * self.weight
            return type("Answer", (), {"logits": logits[:, logits_to_keep]})

    repeating = np.array([*([1, 2, 3, 4] * 20), EOS])
    bits = [stream_bits(Copies(), repeating, eos_id=EOS, window=8, stride=one).sum() for one in (8, 4, 1)]
    assert bits[0] > 1.2 * bits[1]
    assert bits[1] == pytest.approx(bits[2])


def test_batches_hold_no_more_positions_than_allowed_and_lose_no_window():
    windows = [one for start in range(0, 900, 90) for one in windows_of(start, start + 10 + start // 12, 32, 8)]
    batches = batches_of(windows, 100)
    assert all(len(batch) * max(one.length for one in batch) <= 100 for batch in batches)
    assert sorted((one for batch in batches for one in batch), key=lambda w: w.begin) == sorted(
        windows, key=lambda w: w.begin
    )


def test_a_document_cut_off_before_its_end_still_counts():
    assert document_bounds(np.array([5, 6, EOS, EOS, 7]), EOS).tolist() == [[0, 3], [3, 4], [4, 5]]


def test_no_tokens_have_no_documents(model):
    empty = np.array([], dtype=np.int64)
    assert document_bounds(empty, EOS).shape == (0, 2)
    assert len(stream_bits(model, empty, eos_id=EOS, window=16, stride=8)) == 0


@pytest.mark.parametrize("stride", [0, 17])
def test_a_stride_outside_the_window_is_refused(model, stream, stride):
    with pytest.raises(ValueError, match="stride must be from 1 to the window of 16"):
        stream_bits(model, stream, eos_id=EOS, window=16, stride=stride)
