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

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import AsyncIterator, Sequence

    from hpcllm.assistant import Assistant
    from hpcllm.records import Answer, Event, Passage, Turn
    from hpcllm.server.store import Store
    from hpcllm.workspace import Workspace


class AssistantService:
    """Answers for many callers at once from one loaded assistant.

    Attributes:
        store: where conversations and answers are recorded; None records nothing.
    """

    store: Store | None

    @classmethod
    def open(
        cls, workspace: Workspace, *, store: Store | None = None, model: str | None = None
    ) -> AssistantService:
        """Load index and model of a workspace.

        Raises:
            StoreError: there is no index, or it cannot be used.
            ModelError: the model is unknown, or the embedder's files are missing.
        """
        raise NotImplementedError

    async def start(self) -> None:
        """Begin following the index; call it in the event loop that will ask."""
        raise NotImplementedError

    async def close(self) -> None:
        """End running answers and free the engines."""
        raise NotImplementedError

    def stream(
        self,
        question: str,
        *,
        conversation_id: str | None = None,
        history: Sequence[Turn] = (),
        cluster: str | None = None,
        cancel: threading.Event | None = None,
        channel: str = "api",
        owner: str | None = None,
    ) -> AsyncIterator[Event]:
        """Answer a question step by step.

        Args:
            question: as asked.
            conversation_id: a conversation of the store: its messages are the history, its cluster
                is the default, and question and answer are appended once the answer is finished
                (and only then: an abandoned answer leaves no trace).
            history: earlier turns, oldest first, where there is no ``conversation_id``.
            cluster: cluster chosen by the user; None takes the conversation's, then the
                assistant's own rules.
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
            HpcLlmError: the question is empty or too long, or both history and conversation given.
            StoreError: the index cannot be read.
        """
        raise NotImplementedError

    async def answer(self, question: str, **options: object) -> Answer:
        """Answer a question at once; arguments and errors as :meth:`stream`."""
        raise NotImplementedError

    async def search(
        self, query: str, *, k: int | None = None, cluster: str | None = None
    ) -> list[Passage]:
        """Find passages, best first; not queued behind the model.

        Raises:
            HpcLlmError: the query is empty or too long.
            BusyError: too many searches are going on.
            StoreError: the index cannot be read.
        """
        raise NotImplementedError

    @property
    def assistant(self) -> Assistant:
        """The assistant over the newest generation; do not keep it over a request."""
        raise NotImplementedError
