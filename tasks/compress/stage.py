"""Compress: a trained model as ONNX fp32 and INT8, each proven to still be the model."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM
from upath import UPath

from tasks.compress import contracts, speed
from tasks.compress.config import CompressConfig
from tasks.compress.export import export, weight_bytes
from tasks.compress.quantize import count_integer_products, quantize
from tasks.core import events
from tasks.core.errors import DataError
from tasks.core.transfer import local_copy, local_output
from tasks.lm.onnx_generation import Ints, OnnxModel
from tasks.lm.token_shards import TokenShards

VERSION = 1

MODEL_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
TORCH_WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class CompressResult:
    """Sizes in bytes, contracts as numbers. ``*_nll`` are nats per token on the validation windows."""

    torch_bytes: int
    fp32_bytes: int
    int8_bytes: int
    size_ratio: float
    """INT8 against the trained weights (model.safetensors, where a tied embedding is stored once)."""
    size_ratio_onnx: float
    """INT8 against ONNX fp32, which stores a tied embedding twice."""
    quantized_layers: int
    linear_layers: int
    max_logit_diff: float
    torch_nll: float
    fp32_nll: float
    int8_nll: float
    perplexity_increase: float
    num_tokens: int
    padded_prompts: int
    padded_logit_diff: float
    """Of the logits after a prompt, between a left-padded batch and the prompt alone; ONNX fp32."""
    padding_ties: int


def run(config: CompressConfig, model: UPath, shards: UPath, *, out: UPath) -> CompressResult:
    """Export, quantise, check the contracts, measure speed.

    Raises:
        DataError: the model's folder is incomplete or the validation split is empty.
        GateError: a contract is broken.
    """
    with local_copy(model) as source, local_copy(shards) as tokens, local_output(out) as target:
        copy_model_files(source, target)
        events.note("exporting to ONNX fp32")
        export(source, target / "fp32")
        events.note(f"quantising to INT8 ({config.weights} weights)")
        quantize(target / "fp32", target / "int8", weights=config.weights, per_channel=config.per_channel)
        with speed.one_torch_thread():
            result = check(config, source, tokens, target)
        (target / "contracts.json").write_text(json.dumps(asdict(result), indent=1) + "\n", "utf-8")
    return result


def copy_model_files(source: Path, target: Path) -> None:
    """Configuration and tokenizer go along with the weights.

    Raises:
        DataError: naming every file that is missing.
    """
    if missing := [name for name in (*MODEL_FILES, TORCH_WEIGHTS) if not (source / name).is_file()]:
        raise DataError(
            f"the model lacks {', '.join(missing)}", subject=str(source), next_step="run the train stage again"
        )
    for name in MODEL_FILES:
        shutil.copyfile(source / name, target / name)


def check(config: CompressConfig, source: Path, tokens: Path, target: Path) -> CompressResult:
    """All contracts, in the order in which a failure says most; then the speed."""
    trained = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, local_files_only=True).eval()
    expected = contracts.num_linear_layers(trained)
    quantized = count_integer_products(target / "int8" / "model.onnx")
    contracts.check_quantized(quantized, expected, config)

    fp32, int8 = (OnnxModel(target, variant) for variant in ("fp32", "int8"))
    length = min(config.window_tokens, fp32.context)
    windows_NT = contracts.windows_of(TokenShards(tokens, "validation"), config.num_windows, length)
    found = contracts.parity(windows_NT, contracts.torch_logits(trained), fp32.logits, int8.logits)
    contracts.check_parity(found, config)

    prompts = contracts.prompts_of(windows_NT, config.num_prompts, fp32.context - config.continuation_tokens)
    padded_diff, ties = contracts.check_padding(fp32, prompts, config)
    measure(config, trained, {"onnx_fp32": fp32, "int8": int8}, windows_NT)
    torch_bytes, fp32_bytes = (source / TORCH_WEIGHTS).stat().st_size, weight_bytes(target / "fp32")
    int8_bytes = weight_bytes(target / "int8")
    return CompressResult(
        torch_bytes=torch_bytes,
        fp32_bytes=fp32_bytes,
        int8_bytes=int8_bytes,
        size_ratio=round(int8_bytes / torch_bytes, 4),
        size_ratio_onnx=round(int8_bytes / fp32_bytes, 4),
        quantized_layers=quantized,
        linear_layers=expected,
        max_logit_diff=found.max_logit_diff,
        torch_nll=found.torch_nll,
        fp32_nll=found.fp32_nll,
        int8_nll=found.int8_nll,
        perplexity_increase=found.perplexity_increase,
        num_tokens=found.num_tokens,
        padded_prompts=len(prompts),
        padded_logit_diff=padded_diff,
        padding_ties=ties,
    )


def measure(config: CompressConfig, trained: torch.nn.Module, models: dict[str, OnnxModel], windows_NT: Ints) -> None:
    """Report decoding speed of torch and the ONNX forms; it depends on the machine, so it is no result."""
    context = next(iter(models.values())).context
    prompts = contracts.prompts_of(windows_NT, 3, max(1, min(64, context - config.speed_tokens)))
    decoders = {"torch": speed.torch_decoder(trained)}
    decoders.update({name: speed.onnx_decoder(model) for name, model in models.items()})
    num_tokens = min(config.speed_tokens, context - max(map(len, prompts)))
    speeds = speed.tokens_per_second(decoders, prompts, num_tokens=num_tokens, rounds=config.speed_rounds)
    for name, value in speeds.items():
        events.metric(f"tokens_per_s/{name}", value)
    for name in models:
        events.metric(f"speedup/{name}", speeds[name] / speeds["torch"])
