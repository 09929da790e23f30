"""Quality for tokens: the trained model beside a Kneser-Ney 5-gram on the same tokens, at several lengths of training.

Measured on the validation split; the test split is kept for `make run`. The n-gram model has read all of the training
split each time, so only the model gets better with more tokens.
"""

from __future__ import annotations

import sys

from _lifecycle import artifacts, conclude

TRAIN_TOKENS = (614_400, 1_228_800, 1_740_800, 3_481_600)
FLOOR = 1.02
"""The 5-gram needs at least 2% more bits after the longest training; `make run` trains for the third length."""


def main() -> int:
    print(f"{'tokens':>10} {'model':>8} {'Kneser-Ney':>11} {'ratio':>7}")
    bits = {"model": 0.0, "kneser_ney": 0.0}
    for tokens in TRAIN_TOKENS:
        settings = (f"train.train_tokens={tokens}", "evaluate.split=validation", "evaluate.num_pairs=0")
        bits = artifacts("evaluate", *settings)["evaluate"].record.result["total"]["bits_per_byte"]
        ratio = bits["kneser_ney"] / bits["model"]
        print(f"{tokens:>10,} {bits['model']:>8.3f} {bits['kneser_ney']:>11.3f} {ratio:>7.3f}", flush=True)
    ours, peer = bits["model"], bits["kneser_ney"]
    return conclude("model and 5-gram", ours, peer, floor=FLOOR, unit="bits per byte", ratio=peer / ours)


if __name__ == "__main__":
    sys.exit(main())
