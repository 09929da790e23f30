"""BLEU is sacrebleu's, whatever the shell says."""

from __future__ import annotations

import os

import numpy as np
import pytest
from sacrebleu.metrics import BLEU

from tasks.evaluate.bleu import SEED, Score, corpus_bleu

REFERENCES = ["打开文件菜单并选择保存", "关闭所有窗口", "打印当前页面的内容", "这个选项决定是否显示网格线"] * 5
HYPOTHESES = ["打开菜单并选择保存", "关闭窗口 now", "打印页面的全部内容", "这个选项显示网格线"] * 4 + REFERENCES[:4]


def test_score_interval_and_signature_equal_a_bootstrap_of_our_own():
    score, signature = corpus_bleu(HYPOTHESES, REFERENCES, num_bootstrap=200, seed=7)
    metric = BLEU(tokenize="zh")
    assert score.bleu == pytest.approx(metric.corpus_score(HYPOTHESES, [REFERENCES]).score, abs=1e-3)
    draws = np.random.default_rng(7).choice(len(REFERENCES), size=(200, len(REFERENCES)))
    resampled = np.sort(
        [metric.corpus_score([HYPOTHESES[i] for i in d], [[REFERENCES[i] for i in d]]).score for d in draws]
    )
    half = (resampled[-6] - resampled[5]) / 2  # 2.5% of 200 on either side
    assert score.low == pytest.approx(resampled.mean() - half, abs=2e-3)
    assert score.high == pytest.approx(resampled.mean() + half, abs=2e-3)
    assert signature.startswith("nrefs:1|bs:200|seed:7|case:mixed|eff:no|tok:zh|smooth:exp|version:")


def test_the_references_themselves_score_100():
    score, _ = corpus_bleu(REFERENCES, REFERENCES, num_bootstrap=10, seed=0)
    assert (score.bleu, score.low, score.high) == pytest.approx((100, 100, 100))


def test_nothing_said_scores_nothing():
    score, _ = corpus_bleu([""] * 20, REFERENCES, num_bootstrap=10, seed=0)
    assert (score.bleu, score.low, score.high) == (0, 0, 0)


@pytest.mark.parametrize("shell", [None, "none", "99"])
def test_the_seed_of_the_environment_changes_nothing(monkeypatch, shell):
    expected = corpus_bleu(HYPOTHESES, REFERENCES, num_bootstrap=50, seed=7)
    if shell is not None:
        monkeypatch.setenv(SEED, shell)
    assert corpus_bleu(HYPOTHESES, REFERENCES, num_bootstrap=50, seed=7) == expected
    assert os.environ.get(SEED) == shell


@pytest.mark.parametrize(("low", "above"), [(4.1, True), (4.0, False), (2.0, False)])
def test_one_score_is_above_another_only_when_the_intervals_do_not_touch(low, above):
    assert Score(9, low, 12).above(Score(3, 2, 4.0)) is above
