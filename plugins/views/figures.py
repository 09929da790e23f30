"""Which plots a page shows: those of the stages whose numbers want to be compared, and any counts by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plugins.views.excerpts import curve_of, points_of
from plugins.views.plots import WIDE, Plot, bars, curve, plain_number
from tasks.core.artifact import Artifact

MAX_BARS = 12
MODELS = {"model": "model", "kneser_ney": "Kneser-Ney 5-gram", "unigram": "unigram", "champion": "champion"}
"""The champion last: it is not always there, and the others keep their colours."""
FLOORS = {"model": "model", "copy_source": "copy the source", "nearest_pair": "nearest training pair"}
FORMS = {"torch": "trained weights", "onnx_fp32": "ONNX fp32", "int8": "INT8"}


def figures_of(artifact: Artifact) -> list[Plot]:
    """Every plot of an artifact, the telling ones first."""
    own = {"train": of_training, "evaluate": of_evaluation, "compress": of_compression}
    special = own[artifact.record.identity.stage](artifact) if artifact.record.identity.stage in own else []
    return [*special, *of_counts(artifact.record.result)]


def of_training(artifact: Artifact) -> list[Plot]:
    """The loss curve; the last validation loss is in the result."""
    lines, result = curve_of(artifact), artifact.record.result
    train, validation = points_of(lines, "loss"), dict(points_of(lines, "validation_loss"))
    if result.get("validation_loss") is not None and result.get("num_steps"):
        validation[result["num_steps"]] = result["validation_loss"]
    if not train:
        return []
    (first_step, first), (last_step, last) = train[0], train[-1]
    description = f"Training loss from {first:.3f} at step {first_step:,} to {last:.3f} at step {last_step:,}."
    marks = {"validation": sorted(validation.items())} if validation else {}
    return [curve("Loss", description, {"training": train}, marks, x_label="step", y_label="nats per token")]


def of_evaluation(artifact: Artifact) -> list[Plot]:
    """Bits per byte by language and by source beside both baselines and any champion, and BLEU beside both floors."""
    result = artifact.record.result
    found: list[Plot] = []
    for field, title in (("by_language", "Bits per byte by language"), ("by_source", "Bits per byte by source")):
        rows = {name: row["bits_per_byte"] for name, row in result.get(field, {}).items()}
        if field == "by_language" and "total" in result:
            rows["total"] = result["total"]["bits_per_byte"]
        shown = {one: words for one, words in MODELS.items() if any(one in row for row in rows.values())}
        values = {name: [row[one] for one in shown] for name, row in rows.items()}
        if values:
            description = f"{title} on the {result['split']} split, lower is better."
            series = list(shown.values())
            found.append(bars(title, description, values, series=series, text="{:.3f}".format, width=WIDE))
    return [*found, *of_bleu(result.get("bleu"))]


def of_bleu(bleu: Mapping[str, Any] | None) -> list[Plot]:
    """English to Chinese, where it was measured."""
    scores = {words: bleu[name] for name, words in FLOORS.items() if bleu.get(name)} if bleu else {}
    if not bleu or not scores:
        return []
    description = f"BLEU on {bleu['num_pairs']} held-out pairs with 95% intervals, higher is better."
    values = {name: [score["bleu"]] for name, score in scores.items()}
    intervals = {name: (score["low"], score["high"]) for name, score in scores.items()}
    title = "BLEU, English to Chinese"
    return [bars(title, description, values, intervals=intervals, text="{:.1f}".format, width=WIDE)]


def of_compression(artifact: Artifact) -> list[Plot]:
    """Size and decoding speed of each form of the model."""
    result, measured = artifact.record.result, artifact.record.measured
    sizes = {"torch": "torch_bytes", "onnx_fp32": "fp32_bytes", "int8": "int8_bytes"}
    found: list[Plot] = []
    if all(name in result for name in sizes.values()):
        values = {FORMS[form]: [result[name] / 1e6] for form, name in sizes.items()}
        found.append(bars("Size in MB", "Size of each form of the model.", values, text="{:.2f}".format))
    speeds = {words: measured.get(f"tokens_per_s/{form}") for form, words in FORMS.items()}
    if all(speeds.values()):
        values = {words: [float(speed)] for words, speed in speeds.items() if speed}
        found.append(bars("Decoding, tokens/s", "Tokens decoded in a second on one thread.", values))
    return found


def of_counts(result: Mapping[str, Any]) -> list[Plot]:
    """Every part of a result that gives a few names a number each: documents by reason, tokens by split."""
    return [counts(field.replace("_", " "), part) for field, part in result.items() if is_counts(part)]


def counts(title: str, part: Mapping[str, float]) -> Plot:
    """One bar for each name, the largest first."""
    ranked = sorted(part.items(), key=lambda item: -item[1])
    description = f"{len(ranked)} names; the largest is {ranked[0][0]} with {plain_number(ranked[0][1])}."
    return bars(title.capitalize(), description, {name: [number] for name, number in ranked})


def is_counts(part: Any) -> bool:
    """Whether a part of a result is a mapping of two to twelve names to numbers, some above and none below zero."""
    if not isinstance(part, dict) or not 2 <= len(part) <= MAX_BARS:
        return False
    numbers = [one for one in part.values() if isinstance(one, int | float) and not isinstance(one, bool)]
    return len(numbers) == len(part) and min(numbers) >= 0 < max(numbers)
