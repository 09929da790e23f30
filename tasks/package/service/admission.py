"""What stands before the application: how large a body may be, and how many requests may be inside at once."""

from __future__ import annotations

from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tasks.package.service.errors import ApiError


class Admission:
    """ASGI middleware that refuses with 413 and 429 before any work is done.

    A body is read here as it arrives, with or without a Content-Length, and never past the limit.
    """

    def __init__(self, app: ASGIApp, *, max_body_bytes: int, max_concurrency: int) -> None:
        self.app = app
        self.max_body_bytes, self.max_concurrency = max_body_bytes, max_concurrency
        self.inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        if self.inside >= self.max_concurrency:
            message = f"{self.inside} requests are in work or waiting; try again in a moment"
            await ApiError(429, message, code="too_many_requests").response()(scope, receive, send)
            return
        self.inside += 1
        try:
            await self._admit(scope, receive, send)
        finally:
            self.inside -= 1

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await self._read(receive)
        if body is None:
            message = f"the body is larger than {self.max_body_bytes} bytes"
            await ApiError(413, message, code="body_too_large").response()(scope, receive, send)
            return
        messages: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return messages.pop() if messages else await receive()

        await self.app(scope, replay, send)

    async def _read(self, receive: Receive) -> bytes | None:
        """The whole body, or None as soon as it is known to be too large."""
        pieces, size = [], 0
        while True:
            message = await receive()
            piece = message.get("body", b"")
            size += len(piece)
            if size > self.max_body_bytes:
                return None
            pieces.append(piece)
            if message["type"] == "http.disconnect" or not message.get("more_body", False):
                return b"".join(pieces)
