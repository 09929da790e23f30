"""The model card: what is served, how good it is by the numbers, how to ask it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tasks.package.service.limits import Limits


def card_of(tag: str, limits: Limits, evaluation: Mapping[str, Any], contracts: Mapping[str, Any]) -> str:
    """The card as Markdown. Every number comes from the evaluation or the contracts of this very model."""
    lines = [
        f"# {tag}",
        "",
        "A causal language model, served by onnxruntime behind the completions interface of OpenAI's API.",
        "It continues text; it was not taught to follow instructions, and it states falsehoods as readily as facts.",
        "",
        "## Ask it",
        "",
        "```sh",
        f"bentoml import <this file>.bento && bentoml serve {tag}",
        "curl localhost:3000/v1/completions -H 'Content-Type: application/json' \\",
        f"""  -d '{{"model": "{limits.model_name}", "prompt": "English: Save the file.\\nChinese:", """
        """"max_tokens": 24, "temperature": 0}'""",
        "```",
        "",
        '`"stream": true` sends the answer as it is made. Health is at `/livez` and `/readyz`, numbers at `/metrics`.',
        "",
        "## Limits",
        "",
        f"At most {limits.max_tokens} new tokens, {limits.max_prompts} prompts and {limits.max_body_bytes} bytes a"
        f" request; {limits.max_concurrency} requests at once; {limits.timeout_s:g} s.",
        f"The served weights are {limits.variant.upper()}.",
        "",
        *table("Compression", contracts),
        *table("Evaluation before compression", evaluation),
    ]
    return "\n".join(lines)


def table(title: str, values: Mapping[str, Any]) -> list[str]:
    """All numbers and short texts of nested values as a Markdown table."""
    rows = [f"| {name} | {value} |" for name, value in leaves(values)]
    return [f"## {title}", "", "| what | value |", "|---|---|", *rows, ""]


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every number or short one-line text in nested mappings, with dotted names."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        elif isinstance(value, bool | int | float):
            yield f"{prefix}{name}", f"{value:.6g}" if isinstance(value, float) else str(value)
        elif isinstance(value, str) and 0 < len(value) <= 200:
            yield f"{prefix}{name}", " ".join(value.replace("|", "\\|").split())
