"""Server-sent events that free their place when the reader leaves.

Role: shared by the two HTTP interfaces; each says how an event is written.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from starlette.responses import StreamingResponse

from hpcllm.server.statuses import describe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from hpcllm.records import Event
    from hpcllm.server.service import AnswerStream

    Write = Callable[[Event], Iterable[str]]
    WriteError = Callable[[dict[str, Any]], Iterable[str]]

KEEP_ALIVE_S = 10.0
"""Seconds without an event after which a comment is sent, so that proxies keep the connection."""
STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def dumps(data: Any) -> str:
    """Return compact JSON."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


class EventResponse(StreamingResponse):
    """Sends an answer as it is made.

    Args:
        stream: the admitted question; it is abandoned when the reader leaves.
        write: turns an event into the texts to send, none or several.
        write_error: does so with the body of an error that comes up after the first event.
    """

    media_type = "text/event-stream"

    def __init__(self, stream: AnswerStream, write: Write, write_error: WriteError) -> None:
        self._stream = stream
        super().__init__(_texts(stream, write, write_error), headers=STREAM_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._stream.abandon()


async def _texts(stream: AnswerStream, write: Write, write_error: WriteError) -> AsyncIterator[str]:
    try:
        async for event in _with_pauses(stream):
            if event is None:
                yield (
                    f": waiting, {stream.ahead} ahead\n\n" if stream.is_waiting else ": working\n\n"
                )
                continue
            for text in write(event):
                yield text
    except Exception as exc:  # logged by describe() where it is not the caller's fault
        for text in write_error(describe(exc)[1]):
            yield text


async def _with_pauses(stream: AnswerStream) -> AsyncIterator[Event | None]:
    """Yield the events, and None whenever nothing came for a while."""
    pending: asyncio.Task[Event] | None = None
    try:
        while True:
            pending = pending or asyncio.ensure_future(anext(stream))
            done, _ = await asyncio.wait([pending], timeout=KEEP_ALIVE_S)
            if not done:
                yield None
                continue
            finished, pending = pending, None
            try:
                event = finished.result()
            except StopAsyncIteration:
                return
            yield event
    finally:
        if pending is not None:
            pending.cancel()


async def finished(stream: AnswerStream, request: Request) -> Any:
    """Return the answer, or None where the caller left before it was finished."""
    answering = asyncio.ensure_future(_last(stream))
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
        return answering.result() if answering.done() else None
    finally:
        leaving.cancel()
        answering.cancel()
        stream.abandon()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(answering, leaving, return_exceptions=True)


async def _last(stream: AnswerStream) -> Any:
    answer = None
    async for event in stream:
        if event.kind == "done":
            answer = event.payload
    return answer


async def _left(request: Request) -> None:
    """Wait until the caller has closed the connection; the body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
