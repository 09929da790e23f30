"""Plots: where lines and bars lie, and that their numbers are there to read."""

import re

import pytest

from plugins.views.figures import figures_of, of_counts
from plugins.views.page import TEMPLATES
from plugins.views.plots import MAX_POINTS, NARROW, WIDE, bars, curve, thinned, ticks
from tasks.core.artifact import Artifact, Identity, Record

SCORE = {"bits_per_byte": {"model": 1.5, "kneser_ney": 1.25, "unigram": 3.0}}


def artifact(stage, result, measured=None):
    record = Record(Identity(stage, 1, {}, {}), "attempt", "digest", [], result, measured or {})
    return Artifact("/nowhere", record, 1)


def drawn(plot):
    """The plot as it is put into a page."""
    return str(TEMPLATES.get_template("plots.html").module.figure(plot))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (4.3, 8.4, [5, 6, 7, 8]),
        (0, 900, [0, 200, 400, 600, 800]),
        (0.12, 0.19, [0.12, 0.14, 0.16, 0.18]),
        (3, 3, [3.0]),
    ],
)
def test_ticks_are_round_numbers_within_the_range(low, high, expected):
    assert ticks(low, high) == expected


@pytest.mark.parametrize("count", [1, 2, 399, 400, 401, 12_345])
def test_a_thinned_line_is_short_and_ends_where_the_line_ends(count):
    points = [(float(x), 0.0) for x in range(count)]
    kept = thinned(points, MAX_POINTS)
    assert len(kept) <= MAX_POINTS
    assert kept[-1] == points[-1]
    assert kept == sorted(kept)


def test_a_falling_loss_falls_from_the_top_to_the_bottom_of_its_plot():
    plot = curve("Loss", "", {"training": [(0, 8.0), (50, 6.0), (100, 4.0)]}, {}, x_label="step", y_label="nats")
    (x0, y0), (x1, y1), (x2, y2) = (map(float, point.split(",")) for point in plot.lines[0].split())
    assert (x0, x2) == (plot.left, plot.right)
    assert x1 == pytest.approx((x0 + x2) / 2, abs=0.1)
    assert y1 == pytest.approx((y0 + y2) / 2, abs=0.1)
    assert 0 < y0 < y2 == plot.bottom


def test_a_curve_of_one_point_is_drawn():
    plot = curve("Loss", "", {"training": [(10, 8.0)]}, {"validation": [(10, 8.0)]}, x_label="step", y_label="nats")
    assert "<circle" in drawn(plot)


def test_bars_are_as_long_as_their_numbers_and_stay_inside():
    plot = bars("Bits", "", {"en": [1.5, 3.0], "zh": [0.0, 0.75]}, series=["model", "unigram"], width=WIDE)
    widths = [bar.width for group in plot.groups for bar in group.bars]
    assert widths[0] / widths[1] == pytest.approx(0.5, abs=0.01)
    assert widths[3] / widths[1] == pytest.approx(0.25, abs=0.01)
    assert widths[2] == 0
    assert plot.left + max(widths) < WIDE
    assert max(bar.y for group in plot.groups for bar in group.bars) + plot.thickness <= plot.height


def test_an_interval_is_drawn_around_the_end_of_its_bar_and_the_number_stands_behind_it():
    plot = bars("BLEU", "", {"model": [10.0]}, intervals={"model": (8.0, 12.0)}, width=WIDE)
    bar = plot.groups[0].bars[0]
    low, high = bar.whisker
    assert low < bar.width < high < bar.text_at
    assert (high - bar.width) == pytest.approx(bar.width - low, abs=0.2)


def test_every_number_of_a_plot_is_in_its_table_and_what_it_is_in_words():
    text = drawn(bars("Bits", "Lower is better.", {"en": [1.5, 3.0]}, series=["model", "unigram"], width=WIDE))
    assert re.search(r'<svg [^>]*role="img" aria-labelledby="bits-title bits-description"', text)
    assert '<desc id="bits-description">Lower is better.</desc>' in text
    assert '<th scope="row">en</th><td class="number">1.5</td><td class="number">3</td>' in text
    assert text.count('class="legend') == 2


def test_an_evaluation_is_drawn_beside_its_baselines_and_floors():
    score = {"bleu": 2.0, "low": 1.5, "high": 2.5}
    bleu = {"num_pairs": 40, "model": score, "copy_source": score, "beats_copy_source": False}
    result = {
        "split": "test",
        "total": SCORE,
        "by_language": {"zh": SCORE},
        "by_source": {"poems": SCORE},
        "bleu": bleu,
    }
    languages, sources, translation = figures_of(artifact("evaluate", result))
    assert languages.rows == [["zh", "1.500", "1.250", "3.000"], ["total", "1.500", "1.250", "3.000"]]
    assert sources.header == ["", "model", "Kneser-Ney 5-gram", "unigram"]
    assert translation.rows == [["model", "2.0"], ["copy the source", "2.0"]]


def test_a_champion_is_drawn_beside_the_model_where_there_is_one():
    score = {"bits_per_byte": {**SCORE["bits_per_byte"], "champion": 1.75}}
    comparison = {"ratio": 0.85714, "low": 0.8, "high": 0.9, "by_language": {"zh": 0.85714}}
    result = {"split": "test", "by_language": {"zh": score}, "bleu": None, "vs_champion": comparison}
    (plot,) = figures_of(artifact("evaluate", result))
    assert plot.header == ["", "model", "Kneser-Ney 5-gram", "unigram", "champion"]
    assert plot.rows == [["zh", "1.500", "1.250", "3.000", "1.750"]]


def test_an_evaluation_without_pairs_has_no_bleu():
    titles = [
        plot.title
        for plot in figures_of(artifact("evaluate", {"split": "test", "by_language": {"zh": SCORE}, "bleu": None}))
    ]
    assert titles == ["Bits per byte by language"]


def test_a_compression_is_drawn_by_size_and_speed():
    result = {"torch_bytes": 10_000_000, "fp32_bytes": 12_000_000, "int8_bytes": 3_500_000}
    speeds = {"tokens_per_s/torch": 100.0, "tokens_per_s/onnx_fp32": 150.0, "tokens_per_s/int8": 400.0}
    size, speed = figures_of(artifact("compress", result, speeds))
    assert size.rows[2] == ["INT8", "3.50"]
    assert [group.bars[0].width for group in speed.groups] == sorted(group.bars[0].width for group in speed.groups)


def test_any_counts_by_name_are_drawn_the_largest_first():
    (plot,) = of_counts({"num": 3, "dropped": {"a": 1, "b": 5}, "mixed": {"a": 1, "b": "x"}, "none": {"a": 0, "b": 0}})
    assert plot.rows == [["b", "5"], ["a", "1"]]
    assert plot.width == NARROW
