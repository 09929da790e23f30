"""What a pipeline made, for a person: documents, loss curve, scores beside their baselines, how to serve the model."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

import plotext
from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tasks.core import plan, roots
from tasks.core.artifact import Artifact, newest
from tasks.core.errors import DataError
from tasks.core.pipeline import Pipeline, from_champion
from tasks.core.store import Store

PLOT_WIDTH, PLOT_HEIGHT = 90, 16


def show(pipeline: Pipeline, store: Store) -> None:
    """Print the newest artifacts of a pipeline as it is configured now; for one that goes on from the champion, those
    of its newest run, since by now that run may have replaced it.

    Raises:
        DataError: naming the first stage whose artifact is not there.
    """
    made = made_by_newest_run(pipeline, store) if from_champion(pipeline.wiring) else newest_artifacts(pipeline, store)
    console = Console()
    sections = {
        "clean": show_documents,
        "train": show_training,
        "evaluate": show_evaluation,
        "compress": show_compression,
        "promote": show_decision,
        "package": show_service,
    }
    for stage, section in sections.items():
        if stage in made:
            section(console, made)
    console.print(f"\nEvery artifact of {pipeline.path}, newest first in the store {store.root}:", style="bold")
    for stage, artifact in made.items():
        console.print(f"  {stage:<10} {artifact.uri}", highlight=False, soft_wrap=True)


def newest_artifacts(pipeline: Pipeline, store: Store) -> dict[str, Artifact]:
    """The artifact of every stage, followed from the knobs; a run that ended is found again by them."""
    known: dict[str, Artifact | None] = {}
    for stage, wiring in pipeline.wiring.items():
        inputs = {name: known[source] for name, source in wiring.items()}
        step, found = plan.foretell(pipeline, store, stage, inputs, force=(), on_drift="warn")
        if found is None:
            raise nothing_yet(pipeline, f"{stage} {step.fate} {step.reason}")
        known[stage] = found
    return {stage: found for stage, found in known.items() if found is not None}


def made_by_newest_run(pipeline: Pipeline, store: Store) -> dict[str, Artifact]:
    """What the most recent run of a pipeline asked for, as far as it came."""
    named = dict(name.split("/") for name in roots.newest_run(store, pipeline.name))
    found = {stage: newest(store, store.artifact(stage, named[stage])) for stage in pipeline.wiring if stage in named}
    made = {stage: artifact for stage, artifact in found.items() if artifact is not None}
    if not made:
        raise nothing_yet(pipeline, "it never ran with this store")
    return made


def nothing_yet(pipeline: Pipeline, reason: str) -> DataError:
    return DataError(
        f"{reason}: there is nothing to show yet",
        subject=str(pipeline.path),
        next_step=f"python -m tasks run {pipeline.path}",
    )


def result_of(made: Mapping[str, Artifact], stage: str) -> dict[str, Any]:
    """A stage's result; empty when the pipeline has no such stage."""
    return made[stage].record.result if stage in made else {}


def title(console: Console, text: str) -> None:
    console.print(f"\n{text}", style="bold cyan")


def show_documents(console: Console, made: Mapping[str, Artifact]) -> None:
    """Documents in and out by reason, personal data replaced, tokens by split."""
    title(console, "Documents")
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in ("stage", "in", "out", "taken out, by reason"):
        table.add_column(name, justify="right" if name in ("in", "out") else "left")
    ingest, clean, dedup = (result_of(made, stage) for stage in ("ingest", "clean", "dedup"))
    reasons = {"malformed": ingest["num_malformed"], "empty": ingest["num_empty"]}
    table.add_row("ingest", f"{ingest['num_rows']:,}", f"{ingest['num_documents']:,}", listed(reasons))
    table.add_row("clean", f"{clean['num_in']:,}", f"{clean['num_out']:,}", listed(clean["dropped"]))
    if dedup:
        copies = {"exact copies": dedup["num_exact"], "near-copies": dedup["num_near"]}
        known = dedup.get("num_known", 0)
        table.add_row("dedup", f"{dedup['num_in']:,}", f"{dedup['num_out'] - known:,}", listed(copies))
    console.print(table)
    if dedup and known:
        console.print(f"With the {known:,} documents that were there before: {dedup['num_out']:,}.")
    if redact := result_of(made, "redact"):
        console.print(f"Personal data replaced: {listed(redact['by_kind'])}, in {redact['num_redacted']:,} documents.")
    if shards := result_of(made, "shards"):
        tokens = ", ".join(f"{count:,} {split}" for split, count in shards["num_tokens"].items())
        tokenizer = result_of(made, "tokenizer")
        console.print(f"Tokens: {tokens}" + (f"; vocabulary {tokenizer['vocab_size']:,}." if tokenizer else "."))


def listed(counts: Mapping[str, int]) -> str:
    """Counts above zero, largest first: ``83 few_chinese_chars, 45 duplicate_lines``."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {name}" for name, count in ordered if count) or "none"


def show_training(console: Console, made: Mapping[str, Artifact]) -> None:
    """The loss curve as a small plot, and what was trained."""
    train = result_of(made, "train")
    title(console, "Training")
    lines = [
        json.loads(line) for line in (made["train"].path / "report" / "training.jsonl").open("r", encoding="utf-8")
    ]
    plotext.clf()
    plotext.theme("clear")
    plotext.plotsize(min(PLOT_WIDTH, console.width), PLOT_HEIGHT)
    for name, marker in (("loss", "braille"), ("validation_loss", "x")):
        points = [(line["step"], line[name]) for line in lines if line.get(name) is not None]
        if points:
            plotext.plot(*zip(*points, strict=True), marker=marker, label=name.replace("_", " "))
    plotext.xlabel("step")
    plotext.ylabel("nats per token")
    console.print(plotext.uncolorize(plotext.build()), highlight=False, markup=False)
    rate = made["train"].record.measured.get("tokens_per_second")
    console.print(
        f"{train['num_parameters'] / 1e6:.2f} M parameters, {train['num_tokens'] / 1e6:.2f} M tokens in "
        f"{train['num_steps']:,} steps ({train['num_epochs']:.1f} epochs), {train['precision']}"
        + (f", {rate:,.0f} tokens/s" if rate else "")
    )


def show_evaluation(console: Console, made: Mapping[str, Artifact]) -> None:
    """Bits per byte by language and source beside both baselines, BLEU beside both floors, and what it writes."""
    evaluation = result_of(made, "evaluate")
    title(console, f"Bits per byte on the {evaluation['split']} split (lower is better)")
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in ("", "bytes", "model", "Kneser-Ney 5-gram", "unigram", "against Kneser-Ney"):
        table.add_column(name, justify="left" if not name else "right")
    for name, row in (*evaluation["by_language"].items(), *evaluation["by_source"].items()):
        table.add_row(name, *score_cells(row))
    table.add_section()
    table.add_row("total", *score_cells(evaluation["total"]), style="bold")
    console.print(table)
    console.print(
        f"The model needs {gain(evaluation['vs_unigram'])} than the unigram and "
        f"{gain(evaluation['vs_kneser_ney'])} than the 5-gram; sliding window {evaluation['window']}, "
        f"stride {evaluation['stride']}. The n-grams learned from {evaluation['num_baseline_tokens']:,} tokens."
    )
    if against := evaluation.get("vs_champion"):
        console.print(
            f"Against the model in service it needs {gain(against['ratio'])}; {surety(against)}.", markup=False
        )
    show_bleu(console, evaluation)
    title(console, "What it writes")
    for one in evaluation["continuations"]:
        text = Text(one["prompt"]).append(one["text"].rstrip("\n"), style="green")
        console.print(Panel(text, box=box.MINIMAL, padding=(0, 1)), highlight=False)


def score_cells(row: Mapping[str, Any]) -> list[str]:
    """One row of the table; worse than the 5-gram is said as plainly as better."""
    bits = row["bits_per_byte"]
    ratio = bits["model"] / bits["kneser_ney"] - 1
    verdict = f"[{'green' if ratio < 0 else 'red'}]{ratio:+.1%} {'better' if ratio < 0 else 'worse'}[/]"
    return [f"{row['num_bytes']:,}", *(f"{bits[name]:.3f}" for name in ("model", "kneser_ney", "unigram")), verdict]


def gain(ratio: float) -> str:
    """A ratio of bits in words: 0.95 is ``5.0% fewer bits``."""
    return f"{abs(1 - ratio):.1%} {'fewer' if ratio < 1 else 'more'} bits"


def surety(against: Mapping[str, Any]) -> str:
    """What the 95% interval of the ratio to the champion says."""
    low, high = against["low"], against["high"]
    if high < 1:
        says = "better"
    elif low > 1:
        says = "worse"
    else:
        says = "not to be told apart"
    return f"95% interval of the ratio [{low:.4f}, {high:.4f}]: {says}"


def show_bleu(console: Console, evaluation: Mapping[str, Any]) -> None:
    """BLEU with its interval beside what copying and a translation memory reach on the same pairs."""
    bleu = evaluation["bleu"]
    title(console, "English to Chinese, BLEU with 95% interval (higher is better)")
    if bleu is None:
        console.print(f"not measured: {evaluation['why_no_bleu']}")
        return
    names = {"model": "model", "copy_source": "copy the source", "nearest_pair": "nearest training pair"}
    for name, words in names.items():
        if score := bleu.get(name):
            console.print(
                f"  {words:<22} {score['bleu']:5.1f}  [{score['low']:.1f}, {score['high']:.1f}]", markup=False
            )
    verdicts = [verdict("copying the source", bleu["beats_copy_source"])]
    if bleu.get("nearest_pair"):
        verdicts.append(verdict("looking up the nearest training pair", bleu["beats_nearest_pair"]))
    console.print(f"On {bleu['num_pairs']} held-out pairs the model is {' and '.join(verdicts)}.")


def verdict(floor: str, beaten: bool) -> str:
    return f"above {floor}" if beaten else f"not above {floor}"


def show_compression(console: Console, made: Mapping[str, Artifact]) -> None:
    """Size, speed and quality of INT8 against the trained weights."""
    result, measured = result_of(made, "compress"), made["compress"].record.measured
    title(console, "INT8")
    speedup = measured.get("speedup/int8")
    console.print(
        f"{result['int8_bytes'] / 1e6:.1f} MB, {result['size_ratio']:.2f} of the trained weights; "
        + (f"decodes {speedup:.1f} times as fast as torch on one thread; " if speedup else "")
        + f"perplexity {result['perplexity_increase']:+.2%}; {result['quantized_layers']} of "
        f"{result['linear_layers']} linear layers quantised."
    )


def show_decision(console: Console, made: Mapping[str, Artifact]) -> None:
    """Whether the model took the champion's place, and why."""
    decision = result_of(made, "promote")
    title(console, "Kept" if decision["kept"] else "Rejected")
    console.print(f"{decision['reason']}; the champion is {decision['champion']}.", markup=False, highlight=False)


def show_service(console: Console, made: Mapping[str, Artifact]) -> None:
    """Where the bento is, how to serve and ask it, how to look further, and what to expect."""
    package = result_of(made, "package")
    name = package["tag"].split(":")[0]
    title(console, "Serve it, and ask it")
    for line in (
        f"bin/serve {shlex.quote(str(made['package'].path))}",
        "curl -s http://127.0.0.1:3000/v1/completions -H 'content-type: application/json' \\",
        f"""     -d '{{"model": "{name}", "prompt": "English: Open the file.\\nChinese:", "max_tokens": 24}}'""",
    ):
        console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"The bento {package['tag']} is registered in MLflow as models:/{name}@challenger.", highlight=False)
    title(console, "Look further")
    for line in (
        "make up                              Airflow and MLflow in the background; says where, and how to log in",
        "bin/with-env python -m tasks plan dags/lifecycle.yaml --set dedup.threshold=0.7",
    ):
        console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
    train = result_of(made, "train")
    console.print(
        f"\nWhat to expect: {train['num_parameters'] / 1e6:.1f} M parameters and {train['num_tokens'] / 1e6:.1f} M "
        "tokens learn the look of these texts, their common phrases and interface words, and no facts; turn "
        "[bold]train.train_tokens[/bold] up for more.",
    )
