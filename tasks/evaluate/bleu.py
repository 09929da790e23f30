"""BLEU with its bootstrap interval, as sacrebleu computes and signs it (Post 2018, Koehn 2004)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sacrebleu.metrics import BLEU

SEED = "SACREBLEU_SEED"


@dataclass(frozen=True)
class Score:
    """Corpus BLEU, 0 to 100, and the 95% interval of the bootstrap around its own mean."""

    bleu: float
    low: float
    high: float

    def above(self, other: Score) -> bool:
        """Whether this one is higher and the intervals do not overlap."""
        return self.low > other.high


def corpus_bleu(
    hypotheses: Sequence[str], references: Sequence[str], *, num_bootstrap: int, seed: int
) -> tuple[Score, str]:
    """BLEU of Chinese hypotheses against one reference each, and sacrebleu's signature.

    Chinese is compared character by character (``tokenize=zh``); what is Latin in it, word by word.
    """
    metric = BLEU(tokenize="zh", force=True)  # force: no warning about hypotheses that end in " ."
    with _seeded(seed):
        found = metric.corpus_score(list(hypotheses), [list(references)], n_bootstrap=num_bootstrap)
    low, high = found._mean - found._ci, found._mean + found._ci
    return Score(*(round(float(one), 3) for one in (found.score, low, high))), str(metric.get_signature())


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """sacrebleu takes its seed from the environment only; somebody's shell must not change an artifact."""
    before = os.environ.get(SEED)
    os.environ[SEED] = str(seed)
    try:
        yield
    finally:
        os.environ.pop(SEED)
        if before is not None:
            os.environ[SEED] = before
