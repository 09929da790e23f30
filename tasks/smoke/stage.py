"""Smoke: the exported bento, started as a user would start it, answers exactly what the model answers."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
from upath import UPath

from tasks.core import events
from tasks.core.errors import DataError
from tasks.core.transfer import local_copy, local_output
from tasks.smoke import questions
from tasks.smoke.config import SmokeConfig
from tasks.smoke.server import serving

VERSION = 1
CACHED = False
"""A check must run each time: the world it checks is outside the store."""


@dataclass(frozen=True)
class SmokeResult:
    """What was asked and held; whatever did not hold is an error instead."""

    tag: str
    num_prompts: int
    num_tokens: int
    """Completion tokens that were compared, plain and streamed."""
    answers: dict[str, str]
    """The service's greedy continuation of each prompt."""


def run(config: SmokeConfig, bento: UPath, compressed: UPath, *, out: UPath) -> SmokeResult:
    """Import and serve the bento, ask it everything, stop it.

    Raises:
        DataError: the bento's artifact is incomplete or cannot be imported.
        GateError: an answer is not what it must be.
        ServiceError: the service did not become ready.
    """
    with local_copy(bento) as packaged, local_copy(compressed) as model, local_output(out) as target:
        about = description_of(packaged)
        limits = about["limits"]
        reference = questions.Reference(model, limits["variant"], limits["threads"])
        events.note(f"starting {about['tag']}")
        with (
            serving(packaged / about["file"], about["tag"], start_timeout_s=config.start_timeout_s) as url,
            httpx.Client(base_url=url, timeout=config.request_timeout_s) as client,
        ):
            result = interview(config, client, about, reference)
        (target / "smoke.json").write_text(json.dumps(asdict(result), ensure_ascii=False, indent=1) + "\n", "utf-8")
    return result


def description_of(packaged: Path) -> dict[str, Any]:
    """The package's ``bento.json``, whose bento must be there.

    Raises:
        DataError: when either file is missing.
    """
    path = packaged / "bento.json"
    values: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    if not values or not (packaged / values["file"]).is_file():
        raise DataError(f"{packaged} holds no bento", subject=str(packaged), next_step="run package again")
    return values


def interview(
    config: SmokeConfig, client: httpx.Client, about: dict[str, Any], reference: questions.Reference
) -> SmokeResult:
    """Ask the running service everything; the first wrong answer ends it."""
    model, answers, num_tokens = about["limits"]["model_name"], {}, 0
    for prompt in config.prompts:
        expected = reference.answer(prompt, config.max_tokens)
        for kind, asked in (("plain", questions.ask), ("streamed", questions.ask_streamed)):
            questions.check_answer(prompt, kind, asked(client, model, prompt, config.max_tokens), expected)
            num_tokens += expected.num_tokens
        answers[prompt] = expected.text
        events.sample("served", prompt + expected.text)
    questions.check_refusal(client, model, reference.model.context)
    questions.check_health_and_metrics(client, num_tokens)
    whole_s, first_s = questions.latency(client, model, config.prompts[0], config.latency_requests)
    events.metric("latency_16_tokens_s", whole_s)
    events.metric("first_token_s", first_s)
    return SmokeResult(about["tag"], len(config.prompts), num_tokens, answers)
