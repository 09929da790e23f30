"""What is asked of the model, and where its answer ends."""

from __future__ import annotations

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig

from tasks.evaluate.config import EvaluateConfig
from tasks.evaluate.pairs import Pair
from tasks.evaluate.translation import prompt_of, translate
from tasks.lm.encoding import SPECIAL_TOKENS


@pytest.fixture(scope="module")
def tokenizer():
    """Bytes, and one token that hides a newline between two letters."""
    tokens = [*SPECIAL_TOKENS, *sorted(pre_tokenizers.ByteLevel.alphabet()), "aĊb"]
    tokenizer = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, []))
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.encode_special_tokens = True
    return tokenizer


class Recites(torch.nn.Module):
    """Says the tokens of a script, one after the other, and remembers what it was asked."""

    def __init__(self, script, vocab_size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.config = LlamaConfig(vocab_size=vocab_size, num_hidden_layers=1)
        self.script, self.asked = script, None

    def forward(self, input_ids, attention_mask, **_):
        if self.asked is None:
            self.asked = input_ids[0].tolist()
        said = attention_mask.shape[1] - len(self.asked)
        logits = torch.nn.functional.one_hot(torch.tensor([[self.script[said]]]), self.config.vocab_size).float()
        return type("Answer", (), {"logits": logits})


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (["Ġ", "x", "Ċ", "y", "y"], "x"),
        (["Ġ", "x", "aĊb", "y", "y"], "xa"),
        (["x", "<|endoftext|>", "y", "y"], "x"),
        (["Ċ", "y"], ""),
        (["x"] * 9, "xxxxxx"),
    ],
    ids=["newline", "newline inside a token", "end of text", "nothing", "token limit"],
)
def test_an_answer_ends_at_the_first_newline_the_end_of_text_or_the_limit(tokenizer, said, answer):
    network = Recites([tokenizer.token_to_id(token) for token in said], tokenizer.get_vocab_size())
    config = EvaluateConfig(max_new_tokens=6)
    found = translate(config, network, tokenizer, [Pair("p", "Go", "去")], eos_id=0, max_length=64)
    assert found == [answer]


def test_the_prompt_begins_a_document_and_ends_without_a_space(tokenizer):
    network = Recites([0], tokenizer.get_vocab_size())
    translate(EvaluateConfig(), network, tokenizer, [Pair("p", "Go", "去")], eos_id=0, max_length=64)
    assert network.asked == [0, *tokenizer.encode("English: Go\nChinese:").ids]
    assert prompt_of(Pair("p", "Go", "去")) == "English: Go\nChinese:"
