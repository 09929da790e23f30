"""The model at work: one generation at a time, in a thread of its own, so that health is always answered."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from tasks.lm.completion_text import TextStream, TokenBytes, load_tokenizer, prompt_tokens
from tasks.lm.onnx_generation import OnnxModel, Sampling, generate
from tasks.package.service.errors import ApiError
from tasks.package.service.limits import Limits


@dataclass(frozen=True)
class Piece:
    """Some more of a completion; the last has the reason why there is no more."""

    text: str
    num_tokens: int
    finish_reason: str | None = None


class Engine:
    """Model and tokenizer of a package.

    Args:
        folder: the files of a compressed model, and ``service.json``.
    """

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.limits = limits
        self.model = OnnxModel(folder, limits.variant, threads=limits.threads)
        self.tokenizer = load_tokenizer(str(folder / "tokenizer.json"))
        self.bytes_of = TokenBytes(self.tokenizer)
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="generate")

    def encode(self, text: str, max_tokens: int) -> list[int]:
        """Tokens of a prompt that leaves room for the completion.

        Raises:
            ApiError: 400 naming the tokens and the limit.
        """
        tokens = prompt_tokens(self.tokenizer, text, min(self.model.eos_ids))
        if len(tokens) + max_tokens > self.model.context:
            raise ApiError(
                400,
                f"the model's context is {self.model.context} tokens; asked for {len(tokens) + max_tokens}"
                f" ({len(tokens)} in the prompt, {max_tokens} for the completion)",
                param="prompt",
                code="context_length_exceeded",
            )
        return tokens

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, stops: Sequence[str], deadline: float
    ) -> AsyncGenerator[Piece]:
        """Pieces of one completion as they come; leaving the loop early stops the generation.

        Args:
            deadline: on the clock of ``time.monotonic``.

        Raises:
            ApiError: 504 when the deadline passes, waiting for other requests included.
        """
        loop, pieces = asyncio.get_running_loop(), asyncio.Queue[Piece | Exception]()
        left = threading.Event()

        def send(item: Piece | Exception) -> None:
            if not left.is_set():
                loop.call_soon_threadsafe(pieces.put_nowait, item)

        self._worker.submit(self._work, prompt, sampling, stops, deadline, left.is_set, send)
        try:
            while True:
                item = await pieces.get()
                if isinstance(item, Exception):
                    raise item
                yield item
                if item.finish_reason:
                    return
        finally:
            left.set()

    def _work(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        stops: Sequence[str],
        deadline: float,
        is_left: Callable[[], bool],
        send: Callable[[Piece | Exception], None],
    ) -> None:
        """What the worker thread does for one completion; whatever goes wrong is told to the one who waits."""

        def goes_on() -> bool:
            if time.monotonic() > deadline:
                raise ApiError(504, f"not finished within {self.limits.timeout_s:g} s", code="timeout")
            return not is_left()

        try:
            if goes_on():
                for piece in self._pieces(generate(self.model, prompt, sampling), sampling.max_tokens, stops):
                    send(piece)
                    if not goes_on():
                        return
        except Exception as error:  # noqa: BLE001 (raised again where the answer is awaited)
            send(error)

    def _pieces(self, tokens: Iterator[int], max_tokens: int, stops: Sequence[str]) -> Iterator[Piece]:
        """One piece per token, then the end; the token that completes a stop string is the end."""
        text, num_tokens = TextStream(self.bytes_of, stops), 0
        for token in tokens:
            num_tokens += 1
            piece = text.push(token)
            if text.stopped:
                yield Piece(piece, 1, "stop")
                return
            yield Piece(piece, 1)
        yield Piece(text.finish(), 0, "length" if num_tokens == max_tokens else "stop")

    def close(self) -> None:
        """End the worker; what waits is dropped."""
        self._worker.shutdown(wait=False, cancel_futures=True)


async def collected(pieces: AsyncGenerator[Piece], is_left: Callable[[], Awaitable[bool]]) -> Piece:
    """A whole completion as one piece; cut short when ``is_left`` says that nobody waits for it any more."""
    texts, num_tokens, finish_reason = [], 0, None
    async with aclosing(pieces):
        async for piece in pieces:
            texts.append(piece.text)
            num_tokens += piece.num_tokens
            finish_reason = piece.finish_reason
            if await is_left():
                break
    return Piece("".join(texts), num_tokens, finish_reason)
