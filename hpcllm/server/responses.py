"""Which errors a route can answer with, for the description of the interface."""

from __future__ import annotations

from typing import Any

from hpcllm.server.schemas import ErrorOut

MEANINGS = {
    400: "The request is not valid.",
    401: "Nobody valid is calling: sign in or send a key.",
    403: "Who calls may not do this, or the request comes from a foreign page.",
    404: "There is no such thing.",
    409: "This conversation is being answered already.",
    413: "The request is too large.",
    421: "The server does not answer to this name.",
    429: "Too many are waiting; `Retry-After` says when to come back.",
    502: "The model failed.",
    503: "Index or model cannot be used now.",
}
GATE = (401, 403, 413, 421)
"""What any route behind the gate can answer."""


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the description of these errors and of those that any route can answer with."""
    described: dict[int | str, dict[str, Any]] = {
        status: {"model": ErrorOut, "description": MEANINGS[status]}
        for status in sorted({*GATE, *statuses})
    }
    for status in (429, 503):
        if status in described:
            described[status]["headers"] = (
                {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
                if status == 429
                else {}
            )
    return described
