"""One assistant for many callers: loaded once, queued, recorded, following the index.

Role: between :class:`~hpcllm.assistant.assistant.Assistant`, which is synchronous and serves one
caller, and everything that serves many: the HTTP interfaces, the web page, the Slack bot. It adds
no retrieval or prompt logic.

How a page or a bot uses it::

    async for event in service.stream(text, conversation_id=conversation.id):
        match event.kind: ...        # as hpcllm.records.Event; the last one is "done"

Stopping to iterate (or cancelling the task) abandons the answer and frees its place. To stop and
keep what was written, set ``cancel``: the partial draft is then checked and ends as usual.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from hpcllm.assistant.assistant import EXTRACTIVE, QUESTION_CHARACTERS, Assistant
from hpcllm.assistant.origin import refuse_unknown_scopes
from hpcllm.errors import HpcLlmError
from hpcllm.server.admission import Admission, Place
from hpcllm.server.errors import ConflictError
from hpcllm.server.following import Follower
from hpcllm.server.running import Running

if TYPE_CHECKING:
    import threading
    from collections.abc import AsyncGenerator, Callable, Collection, Generator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from hpcllm.records import Answer, Event, Passage, Turn
    from hpcllm.server.store import Store
    from hpcllm.server.stored import Channel
    from hpcllm.workspace import Workspace

logger = logging.getLogger(__name__)

FOLLOW_S = 2.0
"""Seconds between two looks for a new generation of the index."""
SEARCHES = 4
"""Searches at the same time; they are short and not queued behind the model."""
SEARCHES_WAITING = 64
"""Searches that may wait beyond those."""
SERVED_PARALLEL = 8
"""Answers at the same time where a model server, which has a queue of its own, writes them and
``[model] parallel`` is left at 1."""


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a service is.

    Attributes:
        running: answers being made.
        waiting: callers waiting for the model.
        parallel: most answers at the same time.
        waiting_limit: most callers that may wait.
    """

    running: int
    waiting: int
    parallel: int
    waiting_limit: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with all that its answer and its record need."""

    question: str
    history: tuple[Turn, ...]
    cluster: str | None
    channel: Channel
    conversation_id: str | None
    scopes: tuple[str, ...] = ()


class AnswerStream:
    """An admitted question; iterating it gives its events. Made by :meth:`AssistantService.begin`.

    Attributes:
        conversation_id: the conversation that the answer is appended to, or None.
    """

    def __init__(
        self,
        service: AssistantService,
        asked: Asked,
        place: Place,
        cancel: threading.Event | None,
    ) -> None:
        self._service = service
        self._asked = asked
        self._place = place
        self._cancel = cancel
        self._running: Running | None = None
        self._is_over = False
        self.conversation_id = asked.conversation_id

    @property
    def is_waiting(self) -> bool:
        """Whether it is not yet its turn."""
        return self._place.started is None

    @property
    def ahead(self) -> int:
        """Callers that wait in front of this one."""
        return self._place.ahead

    def start(self) -> None:
        """Begin now if it is its turn already, and not only once its events are asked for."""
        if self._running is None and not self.is_waiting:
            self._running = self._service._run(self._asked, self._place, self._cancel)

    def __aiter__(self) -> AnswerStream:
        return self

    async def __anext__(self) -> Event:
        if self._is_over:
            raise StopAsyncIteration
        try:
            event = await self._next()
        except BaseException:
            self.abandon()
            raise
        if event is None:
            self.abandon()
            raise StopAsyncIteration
        return event

    async def _next(self) -> Event | None:
        if self._running is None:
            await self._place.wait()
            self._running = self._service._run(self._asked, self._place, self._cancel)
        event = await self._running.next()
        if event is not None and event.kind == "done":
            await self._service._record(self._asked, event.payload)
        return event

    def abandon(self) -> None:
        """Stop and free the place; awaits nothing, and may be called at any time and twice."""
        if self._is_over:
            return
        self._is_over = True
        self._service._forget(self)
        if self._running is None:
            self._place.release()
        else:
            self._running.abandon()

    async def aclose(self) -> None:
        """See :meth:`abandon`."""
        self.abandon()


class AssistantService:
    """Answers for many callers at once from one loaded assistant.

    Args:
        assistant: answers; its model and generation are closed with the service.
        index_dir: folder of the index, to follow its generations; None follows nothing.
        store: where conversations and answers are recorded; None records nothing. The service
            does not close it.
        parallel: answers at the same time.
        waiting: callers that may wait beyond those.

    Attributes:
        store: as given.
    """

    def __init__(
        self,
        assistant: Assistant,
        *,
        index_dir: Path | None = None,
        store: Store | None = None,
        parallel: int = 1,
        waiting: int = 16,
    ) -> None:
        self.store = store
        self._follower = Follower(assistant, index_dir)
        self._admission = Admission(parallel=parallel, waiting=waiting)
        self._searches = Admission(
            parallel=SEARCHES, waiting=SEARCHES_WAITING, what="a search to end"
        )
        self._answerers = ThreadPoolExecutor(parallel, "answer")
        self._searchers = ThreadPoolExecutor(SEARCHES, "search")
        self._streams: set[AnswerStream] = set()
        self._following: asyncio.Task[None] | None = None

    @classmethod
    def open(
        cls, workspace: Workspace, *, store: Store | None = None, model: str | None = None
    ) -> AssistantService:
        """Load index and model of a workspace.

        Args:
            workspace: whose index, settings and models are used.
            store: where to record; None records nothing.
            model: catalog id or ``extractive``; None takes the workspace's.

        Raises:
            StoreError: there is no index, or it cannot be used.
            ModelError: the model is unknown, or the embedder's files are missing.
        """
        assistant = Assistant.open(workspace, model=model)
        return cls(
            assistant,
            index_dir=workspace.index_dir,
            store=store,
            parallel=_parallel(workspace, assistant),
            waiting=workspace.settings.server.waiting,
        )

    async def start(self) -> None:
        """Begin following the index; call it in the event loop that will ask."""
        if self._following is None:
            self._following = asyncio.create_task(self._follow())

    async def close(self) -> None:
        """End running answers and free the engines."""
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
            self._following = None
        for stream in list(self._streams):
            stream.abandon()
        for executor in (self._answerers, self._searchers):
            await asyncio.to_thread(executor.shutdown)
        await asyncio.to_thread(self._follower.close)

    async def stream(
        self,
        question: str,
        *,
        conversation_id: str | None = None,
        history: Sequence[Turn] = (),
        cluster: str | None = None,
        scopes: Collection[str] = (),
        cancel: threading.Event | None = None,
        channel: Channel = "api",
        owner: str | None = None,
    ) -> AsyncGenerator[Event]:
        """Answer a question step by step.

        Args:
            question: as asked.
            conversation_id: a conversation of the store: its messages are the history, its cluster
                is the default, and question and answer are appended once the answer is finished
                (and only then: an abandoned answer leaves no trace).
            history: earlier turns, oldest first, where there is no ``conversation_id``.
            cluster: cluster chosen by the user; None takes the conversation's, then the
                assistant's own rules.
            scopes: what to search besides documentation, of :attr:`scopes`.
            cancel: set it to stop writing; what was drafted so far is checked and recorded.
            channel: where it is asked, one of ``hpcllm.server.stored.CHANNELS``.
            owner: who asks; the conversation must be theirs. None does not ask whose it is.

        Yields:
            Events in the order of :class:`~hpcllm.records.Event`. When ``done`` arrives the answer
            is on record: its ``receipt.id`` can take feedback.

        Raises:
            BusyError: too many callers are waiting; ``retry_after_s`` says when to come back.
            NotFoundError: there is no such conversation, or it is somebody else's.
            ConflictError: this conversation is being answered already.
            HpcLlmError: the question is empty or too long, the index has no such scope, or both
                history and conversation are given.
            StoreError: the index cannot be read.
        """
        events = await self.begin(
            question,
            conversation_id=conversation_id,
            history=history,
            cluster=cluster,
            scopes=scopes,
            cancel=cancel,
            channel=channel,
            owner=owner,
        )
        async with aclosing(events):
            async for event in events:
                yield event

    async def begin(
        self,
        question: str,
        *,
        conversation_id: str | None = None,
        history: Sequence[Turn] = (),
        cluster: str | None = None,
        scopes: Collection[str] = (),
        cancel: threading.Event | None = None,
        channel: Channel = "api",
        owner: str | None = None,
    ) -> AnswerStream:
        """Admit a question without waiting for its turn; arguments and errors as :meth:`stream`.

        All errors but those of the index come from here, before the first event. The stream must
        be iterated to its end or abandoned.
        """
        _refuse_unusable(question)
        refuse_unknown_scopes(scopes, self.scopes)
        if conversation_id is not None and history:
            raise HpcLlmError("give either conversation_id or history, got both")
        place = self._admission.reserve()
        try:
            if conversation_id is not None:
                self._refuse_second(conversation_id)
                kept, chosen = await asyncio.to_thread(self._recall, conversation_id, owner)
                history, cluster = kept, cluster or chosen
                self._refuse_second(conversation_id)
            asked = Asked(
                question, tuple(history), cluster, channel, conversation_id, tuple(scopes)
            )
            stream = AnswerStream(self, asked, place, cancel)
        except BaseException:
            place.release()
            raise
        self._streams.add(stream)
        return stream

    async def answer(self, question: str, **options: Any) -> Answer:
        """Answer a question at once; arguments and errors as :meth:`stream`."""
        answer: Answer | None = None
        async with aclosing(self.stream(question, **options)) as events:
            async for event in events:
                if event.kind == "done":
                    answer = event.payload
        if answer is None:
            raise HpcLlmError("the answer was ended before it was finished: ask again")
        return answer

    async def search(
        self,
        query: str,
        *,
        k: int | None = None,
        cluster: str | None = None,
        scopes: Collection[str] = (),
    ) -> list[Passage]:
        """Find passages, best first; not queued behind the model.

        Raises:
            HpcLlmError: the query is empty or too long, or the index has no such scope.
            BusyError: too many searches are going on.
            StoreError: the index cannot be read.
        """
        _refuse_unusable(query)
        place = self._searches.reserve()
        try:
            await place.wait()
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(
                self._searchers, partial(self._search, query, k, cluster, tuple(scopes))
            )
        finally:
            place.release()

    def lend(self) -> AbstractContextManager[Assistant]:
        """Lend the assistant over the newest generation, to read pages of its index.

        Do not generate with it: that would pass by the queue.
        """
        return self._follower.lend()

    @property
    def assistant(self) -> Assistant:
        """The assistant over the newest generation; do not keep it over a request."""
        return self._follower.assistant

    @property
    def scopes(self) -> tuple[str, ...]:
        """What the index holds besides documentation, such as ``tickets``."""
        return self.assistant.searcher.scopes

    @property
    def model(self) -> str:
        """Name of what writes the answers."""
        writer = self.assistant.writer
        return writer.backend.id if writer else EXTRACTIVE

    @property
    def is_draft_trusted(self) -> bool:
        """Whether tokens are worth showing before their checks: few of them will be replaced."""
        writer = self.assistant.writer
        return writer is None or writer.adapted

    @property
    def load(self) -> Load:
        """How busy it is."""
        queue = self._admission
        return Load(queue.running, queue.waiting, queue.parallel, queue.waiting_limit)

    @property
    def index_problem(self) -> str:
        """Why the newest generation is not the one served, or empty."""
        return self._follower.problem

    async def refresh(self) -> bool:
        """Look for a new generation of the index now; return whether it is served from here on."""
        return await asyncio.to_thread(self._follower.refresh)

    async def _follow(self) -> None:
        while True:
            try:
                await self.refresh()
            except OSError as exc:
                logger.warning("the index cannot be followed: %s", exc)
            await asyncio.sleep(FOLLOW_S)

    def _refuse_second(self, conversation_id: str) -> None:
        if any(stream.conversation_id == conversation_id for stream in self._streams):
            raise ConflictError(
                "this conversation is being answered already: wait for that answer, or stop it"
            )

    def _recall(
        self, conversation_id: str, owner: str | None
    ) -> tuple[tuple[Turn, ...], str | None]:
        if self.store is None:
            raise HpcLlmError("this server keeps no conversations: send the history instead")
        conversation = self.store.conversation(conversation_id, owner=owner)
        return self.store.history(conversation_id), conversation.cluster

    def _run(self, asked: Asked, place: Place, cancel: threading.Event | None) -> Running:
        return Running(
            partial(self._answer, asked), self._answerers, cancel=cancel, on_end=place.release
        )

    def _answer(self, asked: Asked, cancel: threading.Event) -> Generator[Event]:
        with self._follower.lend() as assistant:
            yield from assistant.stream(
                asked.question,
                history=asked.history,
                cluster=asked.cluster,
                scopes=asked.scopes,
                cancel=cancel,
            )

    def _search(
        self, query: str, k: int | None, cluster: str | None, scopes: tuple[str, ...]
    ) -> list[Passage]:
        with self._follower.lend() as assistant:
            return assistant.search(query, k=k, cluster=cluster, scopes=scopes)

    async def _record(self, asked: Asked, answer: Answer) -> None:
        if self.store is None:
            return
        write: Callable[[], object] = partial(
            self.store.record_answer,
            answer,
            channel=asked.channel,
            conversation_id=asked.conversation_id,
            cluster=asked.cluster,
        )
        try:
            await asyncio.to_thread(write)
        except HpcLlmError as exc:
            # The user has waited for this answer: they get it, and staff read of it in the log.
            logger.error("an answer could not be recorded: %s", exc)

    def _forget(self, stream: AnswerStream) -> None:
        self._streams.discard(stream)


def _refuse_unusable(question: str) -> None:
    if not question.strip():
        raise HpcLlmError("the question is empty: ask something, such as 'how do I run a job?'")
    if len(question) > QUESTION_CHARACTERS:
        raise HpcLlmError(
            f"the question has {len(question)} characters, at most {QUESTION_CHARACTERS} are "
            "taken: keep the lines of a log around the first error"
        )


def _parallel(workspace: Workspace, assistant: Assistant) -> int:
    """Return how many answers may be made at the same time."""
    settings = workspace.settings.model
    if assistant.writer is None:
        return max(settings.parallel, min(workspace.threads, SEARCHES))
    kind: Literal["served", "here"] = (
        "served"
        if settings.backend == "openai" or (settings.backend == "auto" and settings.base_url)
        else "here"
    )
    if kind == "served" and settings.parallel == 1:
        return SERVED_PARALLEL
    return settings.parallel
