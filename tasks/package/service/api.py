"""The HTTP interface: ``/v1/completions`` and ``/v1/models``, as OpenAI's clients speak it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from tasks.lm.onnx_generation import Sampling
from tasks.package.service.admission import Admission
from tasks.package.service.engine import Engine, Piece, collected
from tasks.package.service.errors import ApiError, install
from tasks.package.service.limits import Limits
from tasks.package.service.metrics import Metrics
from tasks.package.service.schema import CompletionRequest, choice, usage

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


@dataclass
class Job:
    """One admitted request: its prompts as tokens, and what it has used so far."""

    request: CompletionRequest
    prompts: list[list[int]]
    model: str
    deadline: float
    name: str = field(default_factory=lambda: f"cmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))
    num_generated: int = 0

    def sampling(self, index: int) -> Sampling:
        """How prompt ``index`` is continued; each prompt draws from its own seed."""
        asked = self.request
        seed = None if asked.seed is None else asked.seed + index
        return Sampling(max_tokens=asked.max_tokens, temperature=asked.temperature, top_p=asked.top_p, seed=seed)

    def usage(self) -> dict[str, int]:
        return usage(sum(map(len, self.prompts)), self.num_generated)


def create_app(limits: Limits) -> FastAPI:
    """The application; whoever serves it puts an :class:`Engine` and :class:`Metrics` into its state."""
    app = FastAPI(title=limits.model_name, docs_url=None, redoc_url=None)
    app.add_middleware(Admission, max_body_bytes=limits.max_body_bytes, max_concurrency=limits.max_concurrency)
    install(app)

    @app.get("/models")
    async def models() -> JSONResponse:
        only = {"id": limits.model_name, "object": "model", "owned_by": "headrace"}
        return JSONResponse({"object": "list", "data": [only]})

    @app.post("/completions")
    async def completions(body: CompletionRequest, request: Request) -> Response:
        engine, metrics = app.state.engine, app.state.metrics
        job = admitted(body, engine, limits)
        metrics.prompt_tokens(sum(map(len, job.prompts)))
        if body.stream:
            return StreamingResponse(events_of(job, engine, metrics), media_type="text/event-stream")
        return JSONResponse(await answer_of(job, engine, metrics, request))

    @app.api_route("/{path:path}", methods=METHODS, include_in_schema=False)
    async def elsewhere(path: str, request: Request) -> Response:
        """BentoML passes on what no route takes and answers in another shape, so one route takes everything."""
        known = path in ("models", "completions")
        raise ApiError(405 if known else 404, f"{request.method} {request.url.path}: not offered here")

    return app


def admitted(body: CompletionRequest, engine: Engine, limits: Limits) -> Job:
    """A request checked against the limits and the context.

    Raises:
        ApiError: 400 or 404 naming the field, what was asked and the limit.
    """
    if body.model not in ("", limits.model_name):
        message = f"there is no model {body.model!r} here, only {limits.model_name!r}"
        raise ApiError(404, message, param="model", code="model_not_found")
    if body.max_tokens > limits.max_tokens:
        message = f"max_tokens: must be at most {limits.max_tokens} (got {body.max_tokens})"
        raise ApiError(400, message, param="max_tokens")
    if len(body.prompts) > limits.max_prompts:
        message = f"prompt: at most {limits.max_prompts} prompts at once (got {len(body.prompts)})"
        raise ApiError(400, message, param="prompt")
    prompts = [engine.encode(prompt, body.max_tokens) for prompt in body.prompts]
    return Job(body, prompts, limits.model_name, deadline=time.monotonic() + limits.timeout_s)


async def pieces_of(job: Job, index: int, engine: Engine, metrics: Metrics) -> AsyncGenerator[Piece]:
    """The pieces of one prompt's completion, counted."""
    started = time.monotonic()
    pieces = engine.complete(job.prompts[index], job.sampling(index), job.request.stops, job.deadline)
    first = True
    async with aclosing(pieces):
        async for piece in pieces:
            if first:
                metrics.first_token(time.monotonic() - started)
                first = False
            job.num_generated += piece.num_tokens
            metrics.completion_tokens(piece.num_tokens)
            yield piece


async def answer_of(job: Job, engine: Engine, metrics: Metrics, request: Request) -> dict[str, Any]:
    """The whole answer; generation stops when the caller hangs up."""
    choices = []
    for index in range(len(job.prompts)):
        whole = await collected(pieces_of(job, index, engine, metrics), request.is_disconnected)
        choices.append(choice(index, whole.text, whole.finish_reason))
    return {**envelope(job, choices), "usage": job.usage()}


async def events_of(job: Job, engine: Engine, metrics: Metrics) -> AsyncGenerator[str]:
    """The answer as server-sent events, one prompt after the other, ended by ``[DONE]``."""
    try:
        for index in range(len(job.prompts)):
            async with aclosing(pieces_of(job, index, engine, metrics)) as pieces:
                async for piece in pieces:
                    if piece.text or piece.finish_reason:
                        yield event(envelope(job, [choice(index, piece.text, piece.finish_reason)]))
        if job.request.stream_options.include_usage:
            yield event({**envelope(job, []), "usage": job.usage()})
    except ApiError as error:
        yield event(error.body())
    yield "data: [DONE]\n\n"


def envelope(job: Job, choices: list[dict[str, Any]]) -> dict[str, Any]:
    """What stands around the choices of an answer or an event."""
    about = {"id": job.name, "object": "text_completion", "created": job.created, "model": job.model}
    return {**about, "choices": choices}


def event(value: dict[str, Any]) -> str:
    """One server-sent event."""
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"
