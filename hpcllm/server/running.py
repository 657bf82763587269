"""Run a synchronous stream of events in a thread and await its events.

Role: the bridge between the assistant's generator and the event loop. The consumer may leave at
any time without awaiting anything (a cancelled task cannot): :meth:`Running.abandon` only sets
flags, the thread closes the generator at its next event and then reports its end.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from concurrent.futures import Executor

    from hpcllm.records import Event

    Begin = Callable[[threading.Event], Generator[Event]]

logger = logging.getLogger(__name__)


class Running:
    """A stream of events that is being made in a thread.

    Args:
        begin: makes the generator; called in the thread with the event that ends a generation.
        executor: where the thread comes from.
        cancel: ends a generation early; what was made so far is then finished as usual.
        on_end: called in the event loop once the thread has let go of everything.
    """

    def __init__(
        self,
        begin: Begin,
        executor: Executor,
        *,
        cancel: threading.Event | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._begin = begin
        self._cancel = cancel or threading.Event()
        self._on_end = on_end
        self._is_abandoned = False
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[Event | BaseException | None] = asyncio.Queue()
        executor.submit(self._run)

    async def next(self) -> Event | None:
        """Wait for the next event; None after the last one.

        Raises:
            Exception: whatever the generator raised.
        """
        item = await self._events.get()
        if isinstance(item, BaseException):
            raise item
        return item

    def abandon(self) -> None:
        """Stop as soon as possible; no event will be awaited any more."""
        self._is_abandoned = True
        self._cancel.set()

    def _run(self) -> None:
        last: BaseException | None = None
        try:
            if not self._is_abandoned:
                self._forward(self._begin(self._cancel))
        except Exception as exc:  # raised again where the events are awaited
            last = exc
        finally:
            self._call(self._events.put_nowait, last)
            self._call(self._on_end)

    def _forward(self, events: Generator[Event]) -> None:
        try:
            for event in events:
                if self._is_abandoned:
                    return
                self._call(self._events.put_nowait, event)
        finally:
            events.close()

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            logger.debug("the event loop is closed; an answer in progress was dropped")
