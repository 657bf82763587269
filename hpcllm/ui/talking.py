"""A conversation on a page: what to show at each step of an answer.

Role: between the service and whatever draws the page; knows nothing of Gradio. History is never
taken from a page: the store holds it, and only its owner's browser can go on with it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hpcllm.errors import BusyError, HpcLlmError
from hpcllm.server.errors import ConflictError, NotFoundError
from hpcllm.server.statuses import status_of
from hpcllm.ui.frame import EARLIER, earlier_html
from hpcllm.ui.rendering import one_line
from hpcllm.ui.turns import answer_turn, error_turn, live_turn

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hpcllm.records import Event
    from hpcllm.server.service import AnswerStream, AssistantService
    from hpcllm.server.store import Store
    from hpcllm.server.stored import Channel, Feedback
    from hpcllm.ui.turns import Frame

logger = logging.getLogger(__name__)

CHANNEL: Channel = "web"
TICK_S = 0.1
"""Seconds between two looks at whether to stop, and at whose turn it is."""
REDRAW_S = 0.08
"""Shortest seconds between two drawings of a growing answer."""
STATUS_S = 0.5
"""The same before its first words: each drawing takes time from them on a small machine, and what
is over in less cannot be read."""
HEAD_START_S = 0.05
"""Seconds in which nothing is prepared that could delay the drawing of the first words."""
OPENING_S = 0.1
"""Most seconds until a page shows that it was asked. What it shows first waits for the passages as
long as that, for making it takes the interpreter from the search."""


@dataclass(frozen=True, slots=True)
class View:
    """What changes on a page; None leaves things as they are.

    Attributes:
        log: HTML of the finished turns.
        live: HTML of the turn in progress; empty for none.
        earlier: HTML of the list of earlier chats.
        question: text of the question's box.
        is_busy: whether an answer is being made.
        conversation_id: of the conversation shown; empty for none.
    """

    log: str | None = None
    live: str | None = None
    earlier: str | None = None
    question: str | None = None
    is_busy: bool | None = None
    conversation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Asking:
    """A question as it comes from a page.

    Attributes:
        question: as typed.
        owner: whose browser it comes from.
        tab: secret of the open page.
        conversation_id: of the conversation that the server showed there; empty for none.
        position: message to replace with all that follow it; None appends.
        cluster: cluster chosen; empty for none.
        scopes: what to search besides documentation; what the index lacks by now is left out.
    """

    question: str
    owner: str
    tab: str
    conversation_id: str = ""
    position: int | None = None
    cluster: str = ""
    scopes: tuple[str, ...] = ()


@dataclass
class _Progress:
    """What is known of an answer in the making."""

    status: str
    conversation_id: str
    text: str = ""
    is_shown: bool = False
    """Whether the page shows that it is in the making."""
    due: float = 0.0
    """When it may be drawn next, on the monotonic clock."""
    is_changed: bool = False
    """Whether something of it is not drawn yet."""
    receipt_id: str = ""
    since: float = field(default_factory=time.time)


class Talker:
    """Shows conversations of one server in one language.

    Args:
        service: answers.
        store: holds the conversations.
        frame: of the page.
        clusters: names that may be chosen.
        start: HTML of an empty conversation.
    """

    def __init__(
        self,
        service: AssistantService,
        store: Store,
        *,
        frame: Frame,
        clusters: tuple[str, ...] = (),
        start: str = "",
    ) -> None:
        self.service = service
        self.store = store
        self.frame = frame
        self.texts = frame.texts
        self.clusters = clusters
        self.start = start
        self._cancels: dict[str, threading.Event] = {}

    def open(self, conversation_id: str, owner: str) -> View:
        """Return a conversation as it is on record.

        Where there is none, or it is not the owner's, the page stays at its start. Nothing else
        is touched: whoever types fast may have asked before this arrives.
        """
        try:
            log = self._log(conversation_id, owner) if conversation_id else None
        except NotFoundError:
            log = None
        known = conversation_id if log else None
        return View(log=log, earlier=self._earlier(owner, known or ""), conversation_id=known)

    def stop(self, tab: str) -> bool:
        """End the answer that a page is being given; return whether there was one."""
        cancel = self._cancels.get(tab)
        if cancel is not None:
            cancel.set()
        return cancel is not None

    async def respond(self, asking: Asking) -> AsyncGenerator[View]:
        """Answer a question, yielding what to show.

        Nothing is raised: errors become views that say what to do, with the question back in its
        box. Closing the generator abandons the answer and frees its place.
        """
        question = asking.question.strip()
        if not question:
            return
        progress = _Progress(self.texts("searching"), asking.conversation_id)
        cancel = self._cancels[asking.tab] = threading.Event()
        opening = asyncio.ensure_future(self._open(asking, progress, cancel))
        try:
            progress.due = time.monotonic() + OPENING_S
            await asyncio.wait({opening}, timeout=OPENING_S)
            # An edited question leaves the log: first something stands in its place.
            if asking.position is not None or not opening.done():
                yield self._shown(question, progress)
            stream = await opening
            if asking.position is not None:
                known = progress.conversation_id
                yield View(log=await asyncio.to_thread(self._log, known, asking.owner))
            async with aclosing(self._write(question, stream, progress, cancel)) as views:
                async for view in views:
                    yield view
            yield await asyncio.to_thread(self._finished, asking, progress)
        except Exception as exc:
            gone = isinstance(exc, NotFoundError)
            yield View(
                log=self.start if gone else None,
                live=one_line(error_turn(question, self.texts, self._advice(exc))),
                question=asking.question,
                is_busy=False,
                conversation_id="" if gone else progress.conversation_id,
            )
        finally:
            _drop(opening)
            if self._cancels.get(asking.tab) is cancel:
                del self._cancels[asking.tab]

    async def _open(
        self, asking: Asking, progress: _Progress, cancel: threading.Event
    ) -> AnswerStream:
        """Begin an answer: the search does not wait for the page."""
        progress.conversation_id = await asyncio.to_thread(self._prepare, asking)
        stream = await self.service.begin(
            asking.question.strip(),
            conversation_id=progress.conversation_id,
            cluster=asking.cluster or None,
            scopes=[scope for scope in asking.scopes if scope in self.service.scopes],
            cancel=cancel,
            channel=CHANNEL,
            owner=asking.owner,
        )
        stream.start()
        return stream

    def _prepare(self, asking: Asking) -> str:
        """Begin a conversation, or drop what is to be replaced; return its id."""
        if asking.cluster and asking.cluster not in self.clusters:
            raise HpcLlmError(self.texts("error.cluster"))
        if not asking.conversation_id:
            begun = self.store.start_conversation(
                CHANNEL, owner=asking.owner, cluster=asking.cluster or None
            )
            return begun.id
        self.store.conversation(asking.conversation_id, owner=asking.owner)
        self.store.set_cluster(asking.conversation_id, asking.cluster or None)
        if asking.position is not None and asking.position >= 0:
            self._refuse_when_full()
            self.store.rewind(asking.conversation_id, asking.position, owner=asking.owner)
        return asking.conversation_id

    def _refuse_when_full(self) -> None:
        """Raise BusyError before an answer is dropped that could not be replaced now."""
        load = self.service.load
        if load.running >= load.parallel and load.waiting >= load.waiting_limit:
            raise BusyError("the server is full: try again later", retry_after_s=10)

    async def _write(
        self, question: str, stream: AnswerStream, progress: _Progress, cancel: threading.Event
    ) -> AsyncGenerator[View]:
        async with aclosing(_ticking(stream, cancel)) as events:
            async for event in events:
                if event is None:
                    self._note_waiting(stream, progress, cancel)
                else:
                    self._note_event(event, progress, cancel)
                now = time.monotonic()
                if (progress.is_changed or not progress.is_shown) and now >= progress.due:
                    are_first_words = bool(progress.text) and not progress.due
                    yield self._shown(question, progress)
                    if are_first_words:
                        await asyncio.sleep(HEAD_START_S)

    def _shown(self, question: str, progress: _Progress) -> View:
        """Return what to show of an answer in the making, and take it as shown."""
        is_first, progress.is_shown = not progress.is_shown, True
        progress.is_changed = False
        progress.due = time.monotonic() + (REDRAW_S if progress.text else STATUS_S)
        live = self._live(question, progress)
        return View(live=live, question="", is_busy=True) if is_first else View(live=live)

    def _note_waiting(
        self, stream: AnswerStream, progress: _Progress, cancel: threading.Event
    ) -> None:
        if cancel.is_set():
            if progress.status != self.texts("stopping"):
                progress.due = 0.0  # shown at once, so that nobody presses twice
            self._set_status(progress, self.texts("stopping"))
        elif stream.is_waiting:
            ahead = stream.ahead
            waiting = self.texts.count("waiting", ahead) if ahead else self.texts("waiting.turn")
            self._set_status(progress, waiting)

    def _note_event(self, event: Event, progress: _Progress, cancel: threading.Event) -> None:
        match event.kind:
            case "searching":
                self._set_status(progress, self.texts("searching"))
            case "passages":
                if not progress.is_shown:
                    progress.due = 0.0
                self._set_status(progress, self.texts.count("reading", len(event.payload)))
            case "token":
                if not progress.text:
                    progress.due = 0.0  # the first words are shown at once
                progress.text += event.payload
                progress.is_changed = True
                key = "writing" if self.service.is_draft_trusted else "drafting"
                self._set_status(progress, self.texts("stopping" if cancel.is_set() else key))
            case "replace":
                progress.text = event.payload
                progress.is_changed = True
            case "checks":
                self._set_status(progress, self.texts("checking"))
            case "done":
                progress.receipt_id = event.payload.receipt.id

    @staticmethod
    def _set_status(progress: _Progress, status: str) -> None:
        if progress.status != status:
            progress.status, progress.is_changed = status, True

    def _live(self, question: str, progress: _Progress) -> str:
        return one_line(
            live_turn(
                question,
                self.texts,
                status=progress.status,
                text=progress.text,
                since=progress.since,
                is_draft=not self.service.is_draft_trusted,
            )
        )

    def _finished(self, asking: Asking, progress: _Progress) -> View:
        conversation_id = progress.conversation_id
        if not progress.receipt_id:  # stopped before its turn came
            question = asking.question.strip()
            stopped = error_turn(question, self.texts, self.texts("error.stopped"))
            return View(
                live=one_line(stopped),
                question=asking.question,
                is_busy=False,
                conversation_id=conversation_id,
            )
        return View(
            log=self._log(conversation_id, asking.owner),
            live="",
            earlier=self._earlier(asking.owner, conversation_id),
            is_busy=False,
            conversation_id=conversation_id,
        )

    def _log(self, conversation_id: str, owner: str) -> str:
        """Return the finished turns of a conversation.

        Raises:
            NotFoundError: it does not exist or is somebody else's.
        """
        turns = []
        for message in self.store.messages(conversation_id, owner=owner):
            if message.role == "assistant" and message.receipt_id:
                answer = self.store.answer(message.receipt_id)
                vote = self._vote(message.receipt_id, owner)
                position = message.position - 1
                turns.append(answer_turn(answer, self.frame, position=position, vote=vote))
        if not turns:
            return self.start
        return one_line(
            f'<div class="hl-turns" data-conversation="{conversation_id}">{"".join(turns)}</div>'
        )

    def _vote(self, receipt_id: str, owner: str) -> Feedback | None:
        return next((f for f in self.store.feedback(receipt_id) if f.author == owner), None)

    def _earlier(self, owner: str, current: str) -> str:
        found = self.store.conversations(owner, channel=CHANNEL, limit=EARLIER) if owner else []
        return earlier_html(found, self.texts, current or None)

    def _advice(self, error: Exception) -> str:
        """Return what a user is to do about an error; what is ours to mend goes to the log."""
        if isinstance(error, BusyError):
            return self.texts("error.busy", seconds=f"{error.retry_after_s:.0f}")
        if isinstance(error, ConflictError):
            return self.texts("error.conflict")
        if isinstance(error, NotFoundError):
            return self.texts("error.not_found")
        if isinstance(error, HpcLlmError) and status_of(error) < 500:
            return str(error)
        reference = secrets.token_hex(4)
        known = isinstance(error, HpcLlmError)
        logger.error("[%s] %s", reference, error, exc_info=None if known else error)
        return self.texts("error.other", reference=reference)


def _drop(opening: asyncio.Future[AnswerStream]) -> None:
    """Give up an answer that was being begun, or its place where it was."""
    if not opening.cancel() and not opening.cancelled() and opening.exception() is None:
        opening.result().abandon()


async def _ticking(stream: AnswerStream, cancel: threading.Event) -> AsyncGenerator[Event | None]:
    """Yield the events of a stream, and None whenever a tick passes without one.

    Ends without ``done`` where it is cancelled before its turn.
    """
    pending: asyncio.Future[Any] | None = None
    try:
        while True:
            pending = pending or asyncio.ensure_future(stream.__anext__())
            done, _ = await asyncio.wait({pending}, timeout=TICK_S)
            if done:
                try:
                    event = pending.result()
                except StopAsyncIteration:
                    return
                pending = None
                yield event
            elif cancel.is_set() and stream.is_waiting:
                return
            else:
                yield None
    finally:
        if pending is not None:
            pending.cancel()
        stream.abandon()
