"""What the summary says of a comparison with the model in service."""

from io import StringIO

import pytest
from rich.console import Console
from upath import UPath

from tasks.core.artifact import Artifact, Identity, Record
from tasks.summary import show_evaluation

ROW = {"num_bytes": 100, "bits_per_byte": {"model": 1.5, "kneser_ney": 2.0, "unigram": 3.0}}
EVALUATION = {
    "split": "test", "window": 128, "stride": 64, "total": ROW, "by_language": {"en": ROW}, "by_source": {},
    "vs_unigram": 0.5, "vs_kneser_ney": 0.75, "num_baseline_tokens": 9,
    "bleu": None, "why_no_bleu": "no pairs", "continuations": [],
}  # fmt: skip


def shown(evaluation):
    record = Record(Identity("evaluate", 1, {}, {}), "attempt", "digest", [], evaluation, {})
    console = Console(width=200, record=True, file=StringIO())
    show_evaluation(console, {"evaluate": Artifact(UPath("/nowhere"), record, 1)})
    return console.export_text()


@pytest.mark.parametrize(
    ("ratio", "low", "high", "words"),
    [
        (0.98, 0.97, 0.99, "2.0% fewer bits; 95% interval of the ratio [0.9700, 0.9900]: better"),
        (1.02, 1.01, 1.03, "2.0% more bits; 95% interval of the ratio [1.0100, 1.0300]: worse"),
        (1.0, 1.0, 1.0, "0.0% more bits; 95% interval of the ratio [1.0000, 1.0000]: not to be told apart"),
    ],
)
def test_a_comparison_is_told_with_what_chance_allows(ratio, low, high, words):
    against = {"ratio": ratio, "low": low, "high": high, "by_language": {"en": ratio}}
    assert f"Against the model in service it needs {words}." in shown(EVALUATION | {"vs_champion": against})


@pytest.mark.parametrize("field", [{}, {"vs_champion": None}])
def test_an_evaluation_without_a_champion_says_nothing_of_one(field):
    assert "in service" not in shown(EVALUATION | field)
