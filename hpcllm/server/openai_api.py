"""The OpenAI-compatible interface: chat completions and models.

Role: parse, call the service, write in OpenAI's form. Sources, checks and receipt come in fields of
their own beside OpenAI's.

A stream cannot take back what it has sent. So the draft of a model that was not trained for
answering from passages, which is often replaced, is sent only once it was checked; that of a
trained one is sent as it is written, and where it fails its checks, the checked answer follows with
a line that says so. The field ``answer`` of the last chunk always holds the checked answer alone.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from hpcllm.errors import HpcLlmError
from hpcllm.records import Turn
from hpcllm.server.errors import NotFoundError
from hpcllm.server.native_api import CLIENT_CLOSED, owner_of
from hpcllm.server.openai_schemas import ChatIn
from hpcllm.server.responses import errors
from hpcllm.server.sse import EventResponse, dumps, finished

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hpcllm.records import Answer, Event
    from hpcllm.server.service import AssistantService

ALIAS = "hpcllm"
"""Model name that always works, whichever model is behind it."""
CORRECTION = "\n\n---\n\n**The draft above did not pass its checks. The checked answer:**\n\n"


def router(service: AssistantService) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(prefix="/v1", tags=["OpenAI-compatible"])
    started = int(time.time())
    _add_chat(routes, service)

    @routes.get("/models", summary="List the models", responses=errors())
    async def models() -> dict[str, Any]:
        """List the alias `hpcllm` and the model that is behind it."""
        names = dict.fromkeys((ALIAS, service.model))
        return {"object": "list", "data": [_model(name, started) for name in names]}

    @routes.get("/models/{model:path}", summary="Look up a model", responses=errors(404))
    async def model(model: str) -> dict[str, Any]:
        """Return one of the models listed."""
        _refuse_unknown(model, service)
        return _model(model, started)

    return routes


def _add_chat(routes: APIRouter, service: AssistantService) -> None:
    @routes.post(
        "/chat/completions",
        response_model=None,
        summary="Answer a conversation",
        responses={
            200: {
                "description": "A chat completion, or chunks of one.",
                "content": {
                    "application/json": {"schema": COMPLETION},
                    "text/event-stream": {"schema": {"type": "object"}},
                },
            },
            **errors(400, 404, 429, 503),
        },
    )
    async def chat(body: ChatIn, request: Request) -> Response:
        """Answer the last message from the documentation; earlier ones are its history."""
        _refuse_unknown(body.model, service)
        question, history = _split(body)
        stream = await service.begin(
            question,
            history=history,
            cluster=body.cluster,
            channel="openai",
            owner=owner_of(request),
        )
        if body.stream:
            usage = bool(body.stream_options and body.stream_options.include_usage)
            chunks = Chunks(body.model, is_live=service.is_draft_trusted, with_usage=usage)
            return EventResponse(stream, chunks.write, chunks.fail)
        answer = await finished(stream, request)
        if answer is None:
            return Response(status_code=CLIENT_CLOSED)
        return JSONResponse(_completion(answer, body.model))


def _refuse_unknown(model: str, service: AssistantService) -> None:
    if model not in (ALIAS, service.model):
        raise NotFoundError(
            f"the model {model!r} does not exist here; expected {ALIAS!r} or {service.model!r}"
        )


def _split(body: ChatIn) -> tuple[str, list[Turn]]:
    """Return the question and the turns before it."""
    last = body.messages[-1]
    if last.role != "user":
        raise HpcLlmError(f"the last message must be a user's, got one of {last.role!r}")
    history = [
        Turn("user" if message.role == "user" else "assistant", message.text)
        for message in body.messages[:-1]
        if message.role in ("user", "assistant")
    ]
    return last.text, history


def _model(name: str, created: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": ALIAS}


@dataclass(slots=True)
class Chunks:
    """Writes the chunks of one streamed completion.

    Attributes:
        model: name that the caller gave.
        is_live: whether tokens are sent before their checks.
        with_usage: whether a chunk with token counts is sent at the end.
        sent: text sent so far.
        created: time of the completion.
    """

    model: str
    is_live: bool
    with_usage: bool
    sent: str = ""
    created: int = field(default_factory=lambda: int(time.time()))

    def write(self, event: Event) -> Iterator[str]:
        """Write what an event calls for."""
        if event.kind == "searching":
            yield self._chunk({"role": "assistant", "content": ""})
        elif event.kind == "token" and self.is_live:
            yield self._text(event.payload)
        elif event.kind == "done":
            yield from self._end(event.payload)

    def fail(self, body: dict[str, Any]) -> Iterator[str]:
        """Write an error that came up midway."""
        yield f"data: {dumps(body)}\n\n"

    def _end(self, answer: Answer) -> Iterator[str]:
        rest = self._rest(answer.text)
        if rest:
            yield self._text(rest)
        yield self._chunk({}, finish="stop", **_extra(answer), answer=answer.text)
        if self.with_usage:
            yield self._data(choices=[], usage=_usage(answer))
        yield "data: [DONE]\n\n"

    def _rest(self, text: str) -> str:
        """Return what is still to be sent so that the reader has the checked answer."""
        sent = self.sent.strip()
        if not sent:
            return text
        if text.startswith(sent):
            return text[len(sent) :]
        # A draft that was cut to its complete sentences was right as far as it went.
        return "" if sent.startswith(text.rstrip()) else CORRECTION + text

    def _text(self, text: str) -> str:
        self.sent += text
        return self._chunk({"content": text})

    def _chunk(self, delta: dict[str, Any], *, finish: str | None = None, **extra: Any) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._data(choices=[choice], **extra)

    def _data(self, **fields: Any) -> str:
        head = {
            "id": f"chatcmpl-{self.created:x}{id(self) & 0xFFFFFF:06x}",
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
        }
        if self.with_usage:
            fields.setdefault("usage", None)
        return f"data: {dumps(head | fields)}\n\n"


def _completion(answer: Answer, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": answer.text,
        "refusal": None,
        "annotations": [],
    }
    return {
        "id": f"chatcmpl-{answer.receipt.id if answer.receipt else ''}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": _usage(answer),
        **_extra(answer),
    }


def _extra(answer: Answer) -> dict[str, Any]:
    """Return what OpenAI's form has no place for."""
    return {
        "citations": [citation.to_json() for citation in answer.citations],
        "checks": [asdict(check) for check in answer.checks],
        "abstained": answer.abstained,
        "fallback": answer.fallback,
        "written_by": answer.model,
        "receipt": asdict(answer.receipt) if answer.receipt else None,
    }


def _usage(answer: Answer) -> dict[str, int]:
    prompt, generated = answer.usage.prompt, answer.usage.generated
    return {
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "total_tokens": prompt + generated,
    }


COMPLETION: dict[str, Any] = {
    "type": "object",
    "required": ["id", "object", "created", "model", "choices", "usage", "citations", "receipt"],
    "properties": {
        "id": {"type": "string"},
        "object": {"const": "chat.completion"},
        "created": {"type": "integer"},
        "model": {"type": "string"},
        "choices": {"type": "array", "items": {"type": "object"}, "minItems": 1},
        "usage": {"type": "object"},
        "citations": {"type": "array", "items": {"type": "object"}},
        "checks": {"type": "array", "items": {"type": "object"}},
        "abstained": {"type": "boolean"},
        "fallback": {"type": "string"},
        "written_by": {"type": "string"},
        "receipt": {"type": "object"},
    },
}
"""What a completion looks like; OpenAI's documentation has the details of its own fields."""
