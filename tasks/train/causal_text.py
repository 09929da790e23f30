"""What is learned: to predict every next token of a stream of documents."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import cross_entropy

from tasks.lm.token_shards import Tokens, TokenShards, sample_order

Engine = Any
"""``deepspeed.DeepSpeedEngine``, which has no types."""

# Shapes: B samples, T positions, V vocabulary.


class CausalText:
    """Next-token prediction on token shards; the order of samples is a permutation for each epoch and seed."""

    def __init__(self, train: TokenShards, validation: TokenShards, *, sequence_length: int, seed: int) -> None:
        self.train, self.validation, self.sequence_length = train, validation, sequence_length
        self.num_samples = train.num_samples(sequence_length)
        self.order = lru_cache(maxsize=2)(lambda epoch: sample_order(self.num_samples, epoch, seed))

    def batch(self, places: list[int]) -> Tensor:
        """The samples at these places of the split; shape (B, T + 1)."""
        return torch.from_numpy(np.stack([self.train.sample(place, self.sequence_length) for place in places]))

    def places(self, numbers: range) -> list[int]:
        """Where in the split the samples of these numbers lie; the numbers go on counting over epochs."""
        return [self.place(number) for number in numbers]

    def place(self, number: int) -> int:
        epoch, position = divmod(number, self.num_samples)
        return int(self.order(epoch)[position])

    def loss(self, model: Engine, batch_BT: Tensor) -> Tensor:
        """Mean nats per target; the softmax is computed in fp32 whatever the model's precision."""
        logits_BTV = model(input_ids=batch_BT[:, :-1], use_cache=False).logits
        return cross_entropy(logits_BTV.flatten(0, 1).float(), batch_BT[:, 1:].flatten())

    def validation_loss(self, model: Engine) -> float | None:
        """Mean nats per token of the validation split; every token counts once, each process does its share.

        Windows of ``sequence_length`` without overlap, so a token has half of it as context on average; the stage
        ``evaluate`` measures with a sliding window, which gives a little less.
        """
        if self.validation.num_tokens == 0:
            return None
        total = torch.zeros((), dtype=torch.float64, device=model.device)
        windows = windows_of(self.validation, self.sequence_length)
        model.eval()
        with torch.no_grad():
            for window in windows[dist.get_rank() :: dist.get_world_size()]:
                batch = torch.from_numpy(window)[None].to(model.device)
                total += self.loss(model, batch).double() * (len(window) - 1)
        model.train()
        dist.all_reduce(total)
        return float(total) / self.validation.num_tokens


def windows_of(split: TokenShards, length: int) -> list[Tokens]:
    """The split cut into windows of ``length`` targets, the last one shorter; each array begins with the token before
    its first target, the first one with the end-of-text token."""
    windows = []
    for start in range(0, split.num_tokens, length):
        targets = split.window(start, min(length, split.num_tokens - start))
        before = split.window(start - 1, 1) if start else np.array([split.eos_id])
        windows.append(np.concatenate([before, targets]))
    return windows
