"""Every error a caller sees has one shape, the one OpenAI's clients understand.

{"error": {"message": …, "type": …, "param": …, "code": …}}

400 invalid_request_error   the request cannot be answered as it is
404 invalid_request_error   no such path or model
413 invalid_request_error   the body is too large
429 rate_limit_error        too many requests at once; trying later helps
500 server_error            a fault of the service
504 timeout_error           the answer took too long
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

TYPES = {429: "rate_limit_error", 500: "server_error", 504: "timeout_error"}


class ApiError(Exception):
    """An answer other than success."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code

    def body(self) -> dict[str, Any]:
        """The error in the one shape."""
        kind = TYPES.get(self.status, "invalid_request_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        """The error as an answer; 429 says when to come back."""
        headers = {"Retry-After": "1"} if self.status == 429 else None
        return JSONResponse(self.body(), status_code=self.status, headers=headers)


def of_validation(error: RequestValidationError) -> ApiError:
    """All problems of a request in one message; ``param`` names the first."""
    problems, params = [], []
    for problem in error.errors():
        where = [part for part in problem["loc"] if part != "body"]
        param = next((str(part) for part in where if isinstance(part, str)), None)
        if problem["type"] == "json_invalid":
            problems.append(f"the body is not valid JSON: {problem['ctx']['error']}")
            continue
        message = str(problem["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
        problems.append(f"{param}: {message}" if param else message)
        params.append(param)
    return ApiError(400, "; ".join(dict.fromkeys(problems)), param=params[0] if params else None)


def install(app: FastAPI) -> None:
    """Give every failure of an app the one shape."""

    @app.exception_handler(ApiError)
    async def expected(_: Request, error: ApiError) -> JSONResponse:
        return error.response()

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return of_validation(error).response()

    @app.exception_handler(HTTPException)
    async def by_status(request: Request, error: HTTPException) -> JSONResponse:
        message = f"{request.method} {request.url.path}: {error.detail}"
        return ApiError(error.status_code, message).response()

    @app.exception_handler(Exception)
    async def unexpected(_: Request, __: Exception) -> JSONResponse:
        return ApiError(500, "the service failed; its log says why").response()
