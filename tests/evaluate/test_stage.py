"""The whole stage on a tiny model: its numbers, what it writes, and what it refuses."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from sacrebleu.metrics import BLEU
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM
from upath import UPath

from tasks.core import events
from tasks.core.errors import ConfigError, DataError, GateError
from tasks.evaluate.config import EvaluateConfig
from tasks.evaluate.stage import run
from tests.evaluate.conftest import write_model

CONFIG = EvaluateConfig(prompts=("The cat", "白日"), sample_tokens=5, max_new_tokens=6, num_bootstrap=20, threads=1)


def evaluate(artifacts, out, champion=None, **knobs):
    config = EvaluateConfig(**(asdict(CONFIG) | knobs))
    return run(config, artifacts.model, artifacts.shards, artifacts.documents, champion, out=out)


class Listens:
    """Remembers what the stage says."""

    def __init__(self):
        self.metrics, self.samples = {}, {}

    def metric(self, name, value, step):
        assert step is None
        self.metrics[name] = value

    def sample(self, name, text):
        self.samples[name] = text

    def progress(self, done, total, unit):
        assert 0 < done <= total, unit


@pytest.fixture(scope="module")
def done(artifacts, tmp_path_factory):
    out = UPath(tmp_path_factory.mktemp("done"))
    return evaluate(artifacts, out), out


def test_perplexity_equals_the_loss_transformers_computes_itself(artifacts, done):
    result, _ = done
    network = AutoModelForCausalLM.from_pretrained(artifacts.model.path).eval()
    nats, tokens = 0.0, 0
    for row in artifacts.splits["test"]:
        ids = torch.tensor([[0, *artifacts.tokenizer.encode(row["text"]).ids, 0]])
        assert ids.shape[1] - 1 <= network.config.max_position_embeddings, "one window each, so one loss each"
        with torch.no_grad():
            nats += float(network(ids, labels=ids).loss) * (ids.shape[1] - 1)
        tokens += ids.shape[1] - 1
    num_bytes = sum(len(row["text"].encode()) for row in artifacts.splits["test"])
    assert result.total["num_tokens"] == tokens
    assert result.total["num_bytes"] == num_bytes
    assert result.total["perplexity"] == pytest.approx(np.exp(nats / tokens), rel=1e-5)
    assert result.total["bits_per_byte"]["model"] == pytest.approx(nats / np.log(2) / num_bytes, rel=1e-5)


def test_languages_and_sources_add_up_to_the_total(done):
    result, _ = done
    assert set(result.by_language) == {"en", "zh"}
    assert set(result.by_source) == {"prose", "poems", "pairs"}
    for rows in (result.by_language, result.by_source):
        for count in ("num_documents", "num_tokens", "num_bytes"):
            assert sum(row[count] for row in rows.values()) == result.total[count]
        for model, total in result.total["bits_per_byte"].items():
            bits = sum(row["bits_per_byte"][model] * row["num_bytes"] for row in rows.values())
            assert bits == pytest.approx(total * result.total["num_bytes"], rel=1e-4)


def test_ratios_are_those_of_the_table(done):
    result, _ = done
    bits = result.total["bits_per_byte"]
    assert result.vs_unigram == pytest.approx(bits["model"] / bits["unigram"], abs=1e-4)
    assert result.vs_kneser_ney == pytest.approx(bits["model"] / bits["kneser_ney"], abs=1e-4)
    assert bits["kneser_ney"] < bits["unigram"] < bits["model"], "an untrained model loses to both"


def test_bleu_is_what_sacrebleu_gives_for_the_written_translations(artifacts, done):
    result, out = done
    rows = [json.loads(line) for line in (out / "report" / "translations.jsonl").read_text("utf-8").splitlines()]
    held_out_ids = {row["id"] for row in artifacts.splits["test"]}
    assert len(rows) == result.bleu["num_pairs"] > 0
    assert all(row["id"] in held_out_ids and "\n" not in row["model"] for row in rows)
    assert [row["copy_source"] for row in rows] == [row["en"] for row in rows]
    train = {json.loads(row["meta"]).get("zh") for row in artifacts.splits["train"]}
    assert all(row["nearest_pair"] in train for row in rows)
    for name in ("model", "copy_source", "nearest_pair"):
        score = BLEU(tokenize="zh").corpus_score([row[name] for row in rows], [[row["reference"] for row in rows]])
        assert result.bleu[name]["bleu"] == pytest.approx(score.score, abs=1e-3)
    assert "tok:zh" in result.bleu["signature"]


def test_the_file_holds_all_numbers_and_the_result_is_small(done):
    result, out = done
    held = json.loads((out / "evaluation.json").read_text("utf-8"))
    numbers = asdict(result)
    assert len(numbers.pop("continuations")) == 2
    assert held == numbers
    assert len(json.dumps(asdict(result))) < 20_000


def test_continuations_are_written_for_people(done):
    result, out = done
    rows = [json.loads(line) for line in (out / "report" / "generations.jsonl").read_text("utf-8").splitlines()]
    assert [row["prompt"] for row in rows] == ["The cat", "白日"]
    assert rows == result.continuations


def test_how_it_runs_does_not_change_what_it_makes(artifacts, done, out):
    evaluate(artifacts, out, batch_tokens=1)
    assert (out / "evaluation.json").read_bytes() == (done[1] / "evaluation.json").read_bytes()


def test_what_depends_on_the_machine_is_measured_beside(artifacts, out):
    with events.listening(listens := Listens()):
        evaluate(artifacts, out)
    assert listens.metrics["scored_tokens_per_s"] > 0
    assert listens.metrics["batch_difference"] < 1e-5
    assert {"kneser_ney_s", "translation_s", "continuations_s"} < set(listens.metrics)
    assert {"continuation", "translation"} <= set(listens.samples)


@pytest.fixture
def worse(artifacts, tmp_path):
    """The model with embeddings ten times as large, so that it is sure of what it does not know."""
    shutil.copytree(artifacts.model.path, tmp_path / "worse")
    change_weights(tmp_path / "worse", "model.embed_tokens.weight", lambda weights: weights * 10)
    return UPath(tmp_path / "worse")


def change_weights(folder, name, change):
    file = f"{folder}/model.safetensors"
    weights = load_file(file)
    weights[name] = change(weights[name])
    save_file(weights, file, metadata={"format": "pt"})


def test_a_model_is_exactly_as_good_as_itself(artifacts, out, done):
    result = evaluate(artifacts, out, champion=artifacts.model)
    assert result.vs_champion == {"ratio": 1, "low": 1, "high": 1, "by_language": {"en": 1, "zh": 1}}
    for table in ([result.total], result.by_language.values(), result.by_source.values()):
        assert all(row["bits_per_byte"]["champion"] == row["bits_per_byte"]["model"] for row in table)
    assert result.vs_unigram == done[0].vs_unigram


def test_a_worse_model_has_a_ratio_above_one_that_is_no_chance(artifacts, worse, out):
    found = run(CONFIG, worse, artifacts.shards, artifacts.documents, artifacts.model, out=out)
    bits = found.total["bits_per_byte"]
    assert 1 < found.vs_champion["low"] <= found.vs_champion["ratio"] <= found.vs_champion["high"]
    assert found.vs_champion["ratio"] == pytest.approx(bits["model"] / bits["champion"], rel=1e-4)
    for language, ratio in found.vs_champion["by_language"].items():
        bits = found.by_language[language]["bits_per_byte"]
        assert ratio == pytest.approx(bits["model"] / bits["champion"], rel=1e-4)


def test_the_bits_of_a_champion_are_those_it_has_as_a_model(artifacts, worse, out, tmp_path):
    beside = evaluate(artifacts, out, champion=worse, num_pairs=0).total["bits_per_byte"]
    (own := UPath(tmp_path / "own")).mkdir()
    alone = run(replace(CONFIG, num_pairs=0), worse, artifacts.shards, artifacts.documents, out=own)
    assert beside["champion"] == alone.total["bits_per_byte"]["model"]


def test_without_a_champion_the_numbers_are_those_of_before(done):
    result, _ = done
    assert result.vs_champion is None
    assert set(result.total["bits_per_byte"]) == {"model", "unigram", "kneser_ney"}


def test_a_champion_of_another_tokenizer_is_refused(artifacts, worse, out):
    with (worse / "tokenizer.json").open("a") as file:
        file.write("\n")
    with pytest.raises(DataError, match="champion was made with another tokenizer"):
        evaluate(artifacts, out, champion=worse)


def test_a_champion_that_gives_no_numbers_is_refused(artifacts, worse, out):
    change_weights(worse, "model.norm.weight", lambda weights: weights * float("nan"))
    with pytest.raises(DataError, match=r"the champion gives no finite probability for \d+ of \d+ tokens"):
        evaluate(artifacts, out, champion=worse)


def test_a_champion_of_another_vocabulary_is_refused(artifacts, worse, out):
    write_model(worse.path, vocab_size=50)
    with pytest.raises(DataError, match="the champion knows 50 tokens, the shards use 330"):
        evaluate(artifacts, out, champion=worse)


def test_a_champion_that_cannot_read_the_window_is_refused(artifacts, worse, out):
    write_model(worse.path, max_position_embeddings=64)
    with pytest.raises(
        ConfigError, match=r"evaluate\.window: must be at most the champion's context of 64 \(got 128\)"
    ):
        evaluate(artifacts, out, champion=worse)


@pytest.mark.parametrize(("knob", "baseline"), [("max_vs_unigram", "unigram"), ("max_vs_kneser_ney", "Kneser-Ney")])
def test_a_model_worse_than_its_gate_is_refused_with_the_numbers(artifacts, out, done, knob, baseline):
    ratio = getattr(done[0], knob.removeprefix("max_"))
    with pytest.raises(GateError, match=rf"test split.*{ratio:.4f} of the {baseline}.*at most 0\.9.*evaluate\.{knob}"):
        evaluate(artifacts, out, **{knob: 0.9})


def test_a_model_within_its_gates_passes(artifacts, out):
    assert evaluate(artifacts, out, max_vs_unigram=50.0, max_vs_kneser_ney=50.0, num_pairs=0).bleu is None


def test_no_pairs_are_a_reason_not_an_error(tmp_path, artifacts, out):
    prose = {split: [row for row in rows if row["source"] != "pairs"] for split, rows in artifacts.splits.items()}
    shards = artifacts.write_shards(tmp_path / "prose", **prose)
    result = run(CONFIG, artifacts.model, shards, artifacts.documents, out=out)
    assert result.bleu is None
    assert result.why_no_bleu == "the test split holds no English-Chinese pair"


def test_pairs_that_are_all_unfair_are_a_reason_that_counts_them(artifacts, out):
    result = evaluate(artifacts, out, min_words=100)
    num_pairs = sum(row["source"] == "pairs" for row in artifacts.splits["test"])
    assert result.bleu is None
    assert f"none of {num_pairs} held-out pairs" in result.why_no_bleu
    assert f"{num_pairs} have too few words" in result.why_no_bleu


@pytest.mark.parametrize("empty", ["test", "train"])
def test_an_empty_split_is_named(tmp_path, artifacts, out, empty):
    shards = artifacts.write_shards(tmp_path / "shards", **{empty: []})
    with pytest.raises(DataError, match=f"the {empty} split holds no t"):
        run(CONFIG, artifacts.model, shards, artifacts.documents, out=out)


def test_window_and_stride_that_do_not_fit_are_named_together(artifacts, out):
    with pytest.raises(ConfigError) as caught:
        evaluate(artifacts, out, window=129, stride=130)
    assert "evaluate.window: must be at most the model's context of 128 (got 129)" in str(caught.value)
    assert "evaluate.stride: must be at most the window of 129 (got 130)" in str(caught.value)


def test_a_prompt_longer_than_the_context_is_named(artifacts, out):
    with pytest.raises(ConfigError, match=r"evaluate\.prompts\.1: must be shorter .* 128 tokens \(got \d+\)"):
        evaluate(artifacts, out, prompts=("fine", "x y z " * 80), num_pairs=0)


def test_weights_that_are_not_numbers_are_refused(own_artifacts, out):
    change_weights(own_artifacts.model.path, "model.norm.weight", lambda weights: weights * float("nan"))
    with pytest.raises(DataError, match=r"no finite probability for \d+ of \d+ tokens"):
        evaluate(own_artifacts, out)


def test_a_model_of_another_vocabulary_is_refused(own_artifacts, out):
    own_artifacts.write_model(vocab_size=50)
    with pytest.raises(DataError, match="the model knows 50 tokens, the shards use 330"):
        evaluate(own_artifacts, out)


def test_a_folder_without_a_model_is_refused(own_artifacts, out):
    (own_artifacts.model / "config.json").unlink()
    with pytest.raises(DataError, match="is not a causal language model"):
        evaluate(own_artifacts, out)
