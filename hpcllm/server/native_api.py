"""The native interface: ask, search, feedback, receipts, health.

Role: parse, call the service or the store, write what they return.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from hpcllm import __version__
from hpcllm.errors import StoreError
from hpcllm.server.access import Identity
from hpcllm.server.responses import errors
from hpcllm.server.schemas import (
    SCOPES,
    AnswerOut,
    AskIn,
    ClusterName,
    EventOut,
    FeedbackIn,
    FeedbackOut,
    HealthOut,
    QuestionText,
    ReceiptId,
    RecordedOut,
    ScopeName,
    SearchOut,
)
from hpcllm.server.sse import EventResponse, dumps, finished

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hpcllm.records import Answer, Event
    from hpcllm.server.service import AnswerStream, AssistantService
    from hpcllm.server.store import Store
    from hpcllm.server.stored import Feedback, StoredAnswer

CLIENT_CLOSED = 499
"""Status for the log where nobody is left to read it."""


def router(service: AssistantService, store: Store) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(prefix="/api", tags=["assistant"])
    _add_asking(routes, service, store)
    _add_searching(routes, service)
    _add_records(routes, store)
    return routes


def _add_asking(routes: APIRouter, service: AssistantService, store: Store) -> None:
    @routes.post(
        "/ask",
        response_model=None,
        summary="Ask a question",
        responses={
            200: {
                "model": AnswerOut,
                "description": "The answer, or its events as they come.",
                "content": {"text/event-stream": {"schema": _inlined(EventOut)}},
            },
            **errors(400, 404, 409, 429, 503),
        },
    )
    async def ask(body: AskIn, request: Request) -> Response:
        """Answer from the documentation, cited and checked.

        As JSON, or as server-sent events where `stream` is true or the request accepts
        `text/event-stream`.
        """
        owner = owner_of(request)
        conversation_id = body.conversation_id
        if body.remember and conversation_id is None:
            begun = await asyncio.to_thread(
                store.start_conversation, "api", owner=owner, cluster=body.cluster
            )
            conversation_id = begun.id
        stream = await service.begin(
            body.question,
            conversation_id=conversation_id,
            history=[turn.turn() for turn in body.history],
            cluster=body.cluster,
            scopes=body.scopes,
            owner=owner,
        )
        if body.stream or "text/event-stream" in request.headers.get("accept", ""):
            return EventResponse(stream, lambda event: _written(event, stream), _error)
        answer = await finished(stream, request)
        if answer is None:
            return Response(status_code=CLIENT_CLOSED)
        return JSONResponse(_answer(answer, stream))


def _add_searching(routes: APIRouter, service: AssistantService) -> None:
    @routes.get(
        "/search",
        response_model=None,
        summary="Search the documentation",
        responses={200: {"model": SearchOut}, **errors(400, 429, 503)},
    )
    async def search(
        q: Annotated[QuestionText, Query(examples=["submit a job array"])],
        k: Annotated[int | None, Query(ge=1, le=50)] = None,
        cluster: Annotated[ClusterName | None, Query()] = None,
        scopes: Annotated[list[ScopeName], Query(max_length=SCOPES)] = [],  # noqa: B006
    ) -> Response:
        """Find the passages that an answer would be written from, best first.

        `scopes=tickets` (which may be repeated) searches answered tickets too, where the index
        holds some.
        """
        passages = await service.search(q, k=k, cluster=cluster, scopes=scopes)
        return JSONResponse({"query": q, "passages": [p.to_json() for p in passages]})


def _add_records(routes: APIRouter, store: Store) -> None:
    @routes.post(
        "/feedback",
        response_model=None,
        summary="Judge an answer",
        responses={200: {"model": FeedbackOut}, **errors(400, 404, 503)},
    )
    async def feedback(body: FeedbackIn, request: Request) -> Response:
        """Say whether an answer helped and, where not, why."""
        given = await asyncio.to_thread(
            store.give_feedback,
            body.receipt_id,
            body.rating,
            reason=body.reason,
            comment=body.comment,
            author=owner_of(request),
        )
        return JSONResponse(_feedback(given))

    @routes.get(
        "/receipts/{receipt_id}",
        response_model=None,
        summary="Look up an answer",
        responses={200: {"model": RecordedOut}, **errors(400, 404, 503)},
    )
    async def receipt(receipt_id: ReceiptId) -> Response:
        """Return a recorded answer by the id of its receipt."""
        return JSONResponse(_recorded(await asyncio.to_thread(store.answer, receipt_id)))


def health_router(service: AssistantService, store: Store) -> APIRouter:
    """Return the route that monitors and load balancers ask."""
    routes = APIRouter(tags=["operation"])

    @routes.get(
        "/healthz",
        response_model=None,
        summary="Ask how the server is",
        responses={200: {"model": HealthOut}, **errors(503)},
    )
    async def healthz() -> Response:
        """Say whether it can answer: 503 where the database does not work."""
        problems = ["model"] if service.assistant.unavailable else []
        problems += ["index"] if service.index_problem else []
        try:
            await asyncio.to_thread(store.ping)
        except StoreError:
            problems.append("database")
        load = service.load
        body = {
            "status": "failing" if "database" in problems else "degraded" if problems else "ok",
            "version": __version__,
            "generation": service.assistant.searcher.generation.name,
            "model": service.model,
            "running": load.running,
            "waiting": load.waiting,
            "problems": problems,
        }
        return JSONResponse(body, 503 if body["status"] == "failing" else 200)

    return routes


def owner_of(request: Request) -> str:
    """Return the opaque name of who is calling."""
    identity = request.scope.get("state", {}).get("identity")
    return identity.owner if isinstance(identity, Identity) else ""


def _written(event: Event, stream: AnswerStream) -> Iterable[str]:
    yield f"event: {event.kind}\ndata: {dumps(_data(event, stream))}\n\n"


def _data(event: Event, stream: AnswerStream) -> dict[str, Any]:
    match event.kind:
        case "passages":
            return {"passages": [passage.to_json() for passage in event.payload]}
        case "token" | "replace":
            return {"text": event.payload}
        case "checks":
            return {"checks": [asdict(check) for check in event.payload]}
        case "done":
            return _answer(event.payload, stream)
        case _:
            return {}


def _error(body: dict[str, Any]) -> Iterator[str]:
    yield f"event: error\ndata: {dumps(body)}\n\n"


def _answer(answer: Answer, stream: AnswerStream) -> dict[str, Any]:
    return {**answer.to_json(), "conversation_id": stream.conversation_id}


def _feedback(given: Feedback) -> dict[str, Any]:
    return {
        "receipt_id": given.receipt_id,
        "rating": given.rating,
        "reason": given.reason,
        "comment": given.comment,
        "created": given.created.isoformat(),
    }


def _recorded(answer: StoredAnswer) -> dict[str, Any]:
    return {
        "receipt": answer.receipt,
        "conversation_id": answer.conversation_id,
        "channel": answer.channel,
        "cluster": answer.cluster,
        "question": answer.question,
        "standalone_question": answer.standalone_question,
        "answer": answer.text,
        "abstained": answer.abstained,
        "fallback": answer.fallback,
        "citations": answer.citations,
        "checks": answer.checks,
        "passages": answer.passages,
        "timings_ms": answer.timings_ms,
        "tokens": answer.tokens,
        "created": answer.created.isoformat(),
    }


def _inlined(model: type[EventOut]) -> dict[str, Any]:
    """Return a model's schema for a place where FastAPI adds no reference to it."""
    return model.model_json_schema(ref_template="#/components/schemas/{model}")
