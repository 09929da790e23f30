"""Tables of bits per byte, and the check that a score does not depend on its batch."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
import torch

from tasks.core.errors import DataError, GateError
from tasks.evaluate.held_out import HeldOut, check_batch_invariance, read_held_out, tables
from tasks.lm.perplexity import stream_bits
from tasks.lm.token_shards import TokenShards

EOS, VOCAB = 0, 20


def held_out_of(lengths, languages=None, num_bytes=None):
    rng = np.random.default_rng(0)
    parts = [np.append(rng.integers(1, VOCAB, size=length - 1), EOS) for length in lengths]
    documents = pa.table(
        {
            "language": languages or ["en"] * len(lengths),
            "source": ["one"] * len(lengths),
            "num_tokens": lengths,
            "num_bytes": num_bytes or [3 * length for length in lengths],
        }
    )
    return HeldOut(np.concatenate(parts), documents, EOS, VOCAB)


def test_bits_are_summed_by_document_and_divided_by_bytes():
    held_out = held_out_of([2, 3, 1], ["en", "zh", "en"], [10, 20, 0])
    found = tables(held_out, {"model": np.array([1.0, 2, 4, 8, 16, 32]), "unigram": np.full(6, 5.0)})
    assert found["by_language"]["en"]["bits_per_byte"] == {"model": 3.5, "unigram": 1.5}
    assert found["by_language"]["zh"]["bits_per_byte"] == {"model": 1.4, "unigram": 0.75}
    assert found["by_language"]["zh"]["perplexity"] == round(2 ** (28 / 3), 3)
    assert found["by_source"] == {"one": found["total"]}
    assert found["total"] == {
        "num_documents": 3,
        "num_tokens": 6,
        "num_bytes": 30,
        "perplexity": round(2 ** (63 / 6), 3),
        "bits_per_byte": {"model": 2.1, "unigram": 1.0},
    }


def test_a_group_without_bytes_has_no_bits_per_byte():
    found = tables(held_out_of([1, 2], ["en", "zh"], [0, 4]), {"model": np.ones(3)})
    assert found["by_language"]["en"]["bits_per_byte"] == {"model": None}


class Reads(torch.nn.Module):
    """Logits from the running mean of what was read; a leaky one also looks at what comes later, padding included."""

    def __init__(self, leaks):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(VOCAB, VOCAB, generator=torch.Generator().manual_seed(0)))
        self.leaks = leaks

    def forward(self, input_ids, logits_to_keep, **_):
        rows = self.table[input_ids]
        logits = rows.mean(1, keepdim=True).expand_as(rows) if self.leaks else rows.cumsum(1)
        return type("Answer", (), {"logits": logits[:, logits_to_keep]})


@pytest.mark.parametrize("leaks", [False, True])
def test_a_score_that_depends_on_the_batch_is_refused(leaks):
    held_out = held_out_of([2, 30, 7, 31, 12, 3, 29, 18, 25, 9])
    network = Reads(leaks)
    bits = stream_bits(network, held_out.tokens, eos_id=EOS, window=16, stride=8, batch_tokens=500)
    if leaks:
        with pytest.raises(GateError, match=r"depends on its batch: \d.* relative difference"):
            check_batch_invariance(network, held_out, bits, window=16, stride=8)
    else:
        assert check_batch_invariance(network, held_out, bits, window=16, stride=8) < 1e-5


def test_an_end_of_text_inside_a_document_is_refused(artifacts, tmp_path):
    folder = tmp_path / "shards"
    folder.mkdir()
    for file in artifacts.shards.rglob("*"):
        target = folder / file.relative_to(artifacts.shards)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.is_file():
            target.write_bytes(file.read_bytes())
    ids = json.loads((folder / "index.json").read_text())["splits"]["test"]["shards"][0]["batches"]["tokens_at"][0]
    with (folder / "test" / "shard-00000.arrow").open("r+b") as file:
        file.seek(ids + 2 * 2)
        file.write(b"\0\0")
    with pytest.raises(DataError, match="do not each end with the end-of-text token 0"):
        read_held_out(TokenShards(folder, "test"))
