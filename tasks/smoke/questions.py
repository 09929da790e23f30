"""What the running service is asked, and what its answers must be."""

from __future__ import annotations

import json
import re
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tasks.core.errors import GateError
from tasks.lm.completion_text import TextStream, TokenBytes, load_tokenizer, prompt_tokens
from tasks.lm.onnx_generation import OnnxModel, Sampling, generate

LATENCY_TOKENS = 16
ERROR_FIELDS = {"message", "type", "param", "code"}


@dataclass(frozen=True)
class Answer:
    """A completion, wherever it came from."""

    text: str
    finish_reason: str
    num_tokens: int


class Reference:
    """The compressed model asked in this process: what the service has to answer."""

    def __init__(self, compressed: Path, variant: str, threads: int) -> None:
        self.model = OnnxModel(compressed, variant, threads=threads)
        self.tokenizer = load_tokenizer(str(compressed / "tokenizer.json"))
        self.bytes_of = TokenBytes(self.tokenizer)

    def answer(self, prompt: str, max_tokens: int) -> Answer:
        """The greedy continuation of one prompt."""
        tokens = prompt_tokens(self.tokenizer, prompt, min(self.model.eos_ids))
        stream = TextStream(self.bytes_of)
        found = list(generate(self.model, tokens, Sampling(max_tokens=max_tokens)))
        text = "".join(map(stream.push, found)) + stream.finish()
        return Answer(text, "length" if len(found) == max_tokens else "stop", len(found))


def ask(client: httpx.Client, model: str, prompt: str, max_tokens: int) -> Answer:
    """A plain request."""
    body = request_of(model, prompt, max_tokens)
    response = client.post("/v1/completions", json=body)
    if response.status_code != 200:
        raise wrong("a plain request", "status 200", f"{response.status_code}: {response.text[:500]}")
    values = response.json()
    choice = values["choices"][0]
    return Answer(choice["text"], choice["finish_reason"], values["usage"]["completion_tokens"])


def ask_streamed(client: httpx.Client, model: str, prompt: str, max_tokens: int) -> Answer:
    """The same request as server-sent events, put together again."""
    body = {**request_of(model, prompt, max_tokens), "stream": True, "stream_options": {"include_usage": True}}
    with client.stream("POST", "/v1/completions", json=body) as response:
        lines = [line for line in response.iter_lines() if line]
    if response.status_code != 200 or lines[-1:] != ["data: [DONE]"]:
        raise wrong("a streamed request", "status 200 and [DONE] at the end", f"{response.status_code}: {lines[-1:]}")
    events = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    choices = [choice for event in events for choice in event["choices"]]
    text = "".join(choice["text"] for choice in choices)
    return Answer(text, choices[-1]["finish_reason"], events[-1]["usage"]["completion_tokens"])


def request_of(model: str, prompt: str, max_tokens: int) -> dict[str, Any]:
    return {"model": model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0}


def check_answer(prompt: str, kind: str, found: Answer, expected: Answer) -> None:
    """The service's answer is the model's own, to the letter.

    Raises:
        GateError: with both.
    """
    if found != expected:
        raise wrong(f"{kind} {prompt!r}", repr(expected), repr(found))


def check_refusal(client: httpx.Client, model: str, context: int) -> None:
    """A prompt longer than the context is refused with 400, in OpenAI's shape, naming the limit."""
    response = client.post("/v1/completions", json=request_of(model, "多" * 2 * context, 1))
    expected = f"status 400 naming the context of {context} tokens"
    try:
        error = response.json()["error"]
        good = response.status_code == 400 and str(context) in error["message"] and set(error) == ERROR_FIELDS
    except (ValueError, KeyError, TypeError):
        good = False
    if not good:
        raise wrong("a prompt longer than the context", expected, f"{response.status_code}: {response.text[:500]}")


def check_health_and_metrics(client: httpx.Client, num_tokens: int) -> None:
    """Health is good, and the metrics have counted at least the completion tokens that were answered."""
    for path in ("/livez", "/readyz", "/v1/models"):
        if (status := client.get(path).status_code) != 200:
            raise wrong(path, "status 200", str(status))
    text = client.get("/metrics").text
    found = re.search(r'^headrace_tokens_total\{[^}]*kind="completion"[^}]*\} (\S+)$', text, re.MULTILINE)
    if found is None or float(found[1]) < num_tokens:
        counted = found[1] if found else "none"
        raise wrong("/metrics", f"headrace_tokens_total of at least {num_tokens} completion tokens", counted)


def latency(client: httpx.Client, model: str, prompt: str, count: int) -> tuple[float, float]:
    """Median seconds of a request for 16 tokens, and median seconds to the first streamed piece."""
    whole, first = [], []
    for _ in range(count):
        started = time.perf_counter()
        ask(client, model, prompt, LATENCY_TOKENS)
        whole.append(time.perf_counter() - started)
        started = time.perf_counter()
        body = {**request_of(model, prompt, LATENCY_TOKENS), "stream": True}
        with client.stream("POST", "/v1/completions", json=body) as response:
            for number, _ in enumerate(response.iter_lines()):
                if number == 0:
                    first.append(time.perf_counter() - started)
    return statistics.median(whole), statistics.median(first)


def wrong(what: str, expected: str, found: str) -> GateError:
    """The service did not do what it must."""
    return GateError(
        f"{what}: expected {expected}, the service answered {found}",
        subject=what,
        next_step="serve the bento by hand and ask it the same; compare tasks/package/service with the model",
    )
