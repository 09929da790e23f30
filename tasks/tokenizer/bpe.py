"""Byte-level BPE with single digits.

Sennrich et al., "Neural machine translation of rare words with subword units", 2016; bytes as the alphabet and the
splitting expression from GPT-2 (Radford et al., 2019). Every text can be written, so there is no unknown token.
Digits stand alone, or numbers would be cut at random places ("1234|5").
"""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from tasks.lm.encoding import SPECIAL_TOKENS


def train_bpe(texts: Iterable[str], vocab_size: int, min_frequency: int) -> Tokenizer:
    """Train on texts; the same texts in the same order give the same tokenizer.

    The vocabulary is smaller than ``vocab_size`` when fewer pairs occur ``min_frequency`` times.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
