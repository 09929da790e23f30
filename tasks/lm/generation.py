"""Text from a causal language model, many prompts at once, the same as one at a time.

Prompts of a batch are padded on the left; padded positions are masked, get no position of their own and are
unknown to the repetition penalty. Each prompt has its own budget and its own random numbers. So what a prompt
gets does not depend on its neighbours.

Shape suffixes: ``B`` prompts still going, ``T`` positions so far, ``V`` vocabulary.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import DynamicCache

from tasks.core import events

BATCH_PROMPTS = 64


@dataclass(frozen=True)
class Decoding:
    """How the next token is chosen."""

    max_new_tokens: int
    temperature: float = 0.0
    """0 takes the likeliest token; otherwise logits are divided by it and a token is drawn."""
    top_p: float = 1.0
    """Draw from the smallest set of likeliest tokens that holds this much probability (Holtzman et al. 2020)."""
    repetition_penalty: float = 1.0
    """Positive logits of tokens already in prompt or answer are divided by it, negative ones multiplied
    (Keskar et al. 2019, CTRL). Tokens that stop are exempt: a prompt's own newline must not keep it from ending."""
    seed: int = 0


def ids_with(tokenizer: Tokenizer, text: str) -> frozenset[int]:
    """Ids of all tokens whose own text contains ``text``: in byte-level BPE a newline hides in many tokens."""
    return frozenset(one for one in range(tokenizer.get_vocab_size()) if text in tokenizer.decode([one]))


def generate(
    model: Any, prompts: Sequence[Sequence[int]], decoding: Decoding, *, stop_ids: Collection[int], max_length: int
) -> list[list[int]]:
    """Continue each prompt; the stop token, where one came, is the last of the answer.

    Args:
        model: a transformers causal language model with a key-value cache, in ``eval`` mode.
        prompts: token ids of each prompt, at least one and fewer than ``max_length``.
        stop_ids: ids that end an answer.
        max_length: most positions of prompt and answer together, the model's context.

    Raises:
        ValueError: when a prompt is empty or leaves no room for an answer.
    """
    for number, prompt in enumerate(prompts):
        if not 0 < len(prompt) < max_length:
            raise ValueError(f"prompt {number} has {len(prompt)} tokens; must be from 1 to {max_length - 1}")
    order = sorted(range(len(prompts)), key=lambda one: len(prompts[one]))
    answers: list[list[int]] = [[] for _ in prompts]
    for first in range(0, len(order), BATCH_PROMPTS):
        chosen = order[first : first + BATCH_PROMPTS]
        batch = _Batch(model, [list(prompts[one]) for one in chosen], chosen, decoding, frozenset(stop_ids), max_length)
        for one, answer in zip(chosen, batch.run(), strict=True):
            answers[one] = answer
        events.progress(min(first + BATCH_PROMPTS, len(order)), len(order), "prompts")
    return answers


class _Batch:
    """One batch on its way; rows leave it when they have stopped."""

    def __init__(
        self,
        model: Any,
        prompts: list[list[int]],
        numbers: Sequence[int],
        decoding: Decoding,
        stop_ids: frozenset[int],
        max_length: int,
    ) -> None:
        self.model, self.decoding, self.stop_ids = model, decoding, stop_ids
        self.device = next(model.parameters()).device
        self.answers: list[list[int]] = [[] for _ in prompts]
        self.budgets = [min(decoding.max_new_tokens, max_length - len(prompt)) for prompt in prompts]
        self.rows = [row for row, budget in enumerate(self.budgets) if budget > 0]
        self.draws = [_draws(decoding, number) for number in numbers]
        width = max(len(prompt) for prompt in prompts)
        self.ids_BT = torch.zeros((len(prompts), width), dtype=torch.long)
        self.mask_BT = torch.zeros((len(prompts), width), dtype=torch.long)
        for row, prompt in enumerate(prompts):
            self.ids_BT[row, width - len(prompt) :] = torch.tensor(prompt)
            self.mask_BT[row, width - len(prompt) :] = 1
        self.cache = DynamicCache(config=model.config)

    def run(self) -> list[list[int]]:
        """The answer of each prompt."""
        with torch.inference_mode():
            return self._run()

    def _run(self) -> list[list[int]]:
        if not self.rows:
            return self.answers
        ids_BT, mask_BT = self.ids_BT.to(self.device), self.mask_BT.to(self.device)
        seen_BV = _seen(ids_BT, mask_BT, self.model.config.vocab_size)
        seen_BV[:, sorted(self.stop_ids)] = False
        while True:
            next_B = self._choose(self._logits(ids_BT, mask_BT), seen_BV)
            going = self._take(next_B.tolist())
            if not going:
                return self.answers
            if len(going) < len(self.rows):
                keep = torch.tensor(going, device=self.device)
                self.cache.batch_select_indices(keep)
                next_B, mask_BT, seen_BV = next_B[keep], mask_BT[keep], seen_BV[keep]
                self.rows = [self.rows[one] for one in going]
            ids_BT = next_B[:, None]
            mask_BT = torch.cat([mask_BT, torch.ones_like(ids_BT)], dim=1)
            seen_BV.scatter_(1, ids_BT, True)

    def _logits(self, ids_BT: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
        """Logits of the token after the last; ``ids_BT`` holds only what the cache has not seen."""
        positions_BT = (mask_BT.cumsum(1) - 1).clamp(min=0)[:, -ids_BT.shape[1] :]
        answer = self.model(
            input_ids=ids_BT,
            attention_mask=mask_BT,
            position_ids=positions_BT,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits_BV: torch.Tensor = answer.logits[:, -1].float()
        return logits_BV

    def _choose(self, logits_BV: torch.Tensor, seen_BV: torch.Tensor) -> torch.Tensor:
        decoding = self.decoding
        if decoding.repetition_penalty != 1:
            penalised_BV = torch.where(
                logits_BV > 0, logits_BV / decoding.repetition_penalty, logits_BV * decoding.repetition_penalty
            )
            logits_BV = torch.where(seen_BV, penalised_BV, logits_BV)
        if decoding.temperature == 0:
            return logits_BV.argmax(dim=-1)
        step = len(self.answers[self.rows[0]])
        draw_B = torch.stack([self.draws[row][step] for row in self.rows]).to(self.device)
        return drawn(logits_BV / decoding.temperature, decoding.top_p, draw_B)

    def _take(self, chosen: list[int]) -> list[int]:
        """Append one token to each answer; returns which rows of the batch go on."""
        going = []
        for position, (row, token) in enumerate(zip(self.rows, chosen, strict=True)):
            self.answers[row].append(token)
            if token not in self.stop_ids and len(self.answers[row]) < self.budgets[row]:
                going.append(position)
        return going


def drawn(logits_BV: torch.Tensor, top_p: float, draw_B: torch.Tensor) -> torch.Tensor:
    """The token that a uniform draw from ``[0, 1)`` picks from the nucleus of each row; shape ``(B,)``.

    The nucleus is the likeliest tokens up to and including the one that reaches ``top_p``.
    """
    probability_BV, token_BV = logits_BV.double().softmax(-1).sort(dim=-1, descending=True, stable=True)
    up_to_BV = probability_BV.cumsum(-1)
    probability_BV = probability_BV.masked_fill(up_to_BV - probability_BV >= top_p, 0)
    up_to_BV = probability_BV.cumsum(-1)
    place_B1 = torch.searchsorted(up_to_BV, draw_B.double()[:, None] * up_to_BV[:, -1:], right=True)
    last_B1 = (probability_BV > 0).sum(-1, keepdim=True) - 1
    return token_BV.gather(1, torch.minimum(place_B1, last_B1)).squeeze(1)


def _draws(decoding: Decoding, number: int) -> torch.Tensor:
    """The uniform numbers of prompt ``number``, one per step."""
    generator = torch.Generator().manual_seed(decoding.seed * 1_000_003 + number)
    return torch.rand(decoding.max_new_tokens, generator=generator, dtype=torch.float64)


def _seen(ids_BT: torch.Tensor, mask_BT: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """Which tokens stand in each prompt, padding apart; shape ``(B, V)``, boolean."""
    counts_BV = torch.zeros((len(ids_BT), vocab_size), dtype=torch.long, device=ids_BT.device)
    return counts_BV.scatter_add_(1, ids_BT, mask_BT) > 0
