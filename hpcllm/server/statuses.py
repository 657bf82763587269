"""Errors become HTTP statuses and bodies.

Role: the one table of which error is whose fault. All interfaces answer in the form that
OpenAI-compatible clients read: ``{"error": {"message", "type", "param", "code"}}``.
"""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from hpcllm.errors import (
    BusyError,
    ConfigError,
    GenerationError,
    HpcLlmError,
    IngestError,
    MissingExtraError,
    ModelError,
    StoreError,
)
from hpcllm.server.errors import AccessError, ConflictError, NotFoundError

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

logger = logging.getLogger(__name__)

STATUSES: dict[type[Exception], int] = {
    HpcLlmError: 400,
    AccessError: 401,
    NotFoundError: 404,
    ConflictError: 409,
    BusyError: 429,
    ConfigError: 500,
    IngestError: 500,
    MissingExtraError: 501,
    GenerationError: 502,
    StoreError: 503,
    ModelError: 503,
}
"""Status of each error; a class that is not listed has its parent's."""

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    429: "rate_limit_error",
}
CODES = {
    400: "invalid_request",
    401: "not_signed_in",
    403: "not_allowed",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "too_large",
    421: "wrong_host",
    429: "busy",
    501: "not_installed",
    502: "model_failed",
    503: "unavailable",
}


def status_of(error: Exception) -> int:
    """Return the status of an error."""
    if isinstance(error, AccessError) and error.is_known:
        return 403
    return next((STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES), 500)


def body_of(
    message: str, status: int, *, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """Return the body of an error."""
    kind = TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    code = code or CODES.get(status, "error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def describe(error: Exception) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Return status, body and further headers for an error.

    What is not the caller's fault is logged under a reference that they can pass on; its own
    message, which may name files of this machine, stays in the log.
    """
    status = status_of(error)
    if status >= 500:
        reference = secrets.token_hex(4)
        known = isinstance(error, HpcLlmError)
        logger.error("[%s] %s", reference, error, exc_info=None if known else error)
        message = f"the server cannot do this now; its log says why under reference {reference}"
        return status, body_of(message, status), {}
    headers = {}
    if isinstance(error, BusyError):
        headers["Retry-After"] = f"{error.retry_after_s:.0f}"
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return status, body_of(str(error), status), headers


def response_for(error: Exception) -> JSONResponse:
    """Return the response for an error."""
    status, body, headers = describe(error)
    return JSONResponse(body, status, headers=headers)


def add_handlers(app: FastAPI) -> None:
    """Let an application answer all errors in this form."""
    app.add_exception_handler(HpcLlmError, _own)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _own)


async def _own(_: Request, error: Exception) -> JSONResponse:
    return response_for(error)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    problems = error.errors() if isinstance(error, RequestValidationError) else []
    lines = [f"{place_of(problem['loc'])}: {problem['msg']}" for problem in problems[:10]]
    param = place_of(problems[0]["loc"]) if problems else None
    return JSONResponse(body_of("; ".join(lines), 400, param=param), 400)


def place_of(location: tuple[int | str, ...]) -> str:
    """Return where in a request something is wrong, such as ``messages.0.role``."""
    return ".".join(str(part) for part in location[1:]) or str(location[0])


async def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    body = body_of(str(error.detail), error.status_code)
    return JSONResponse(body, error.status_code, headers=error.headers)
