"""The places of an engine: who generates now, who waits, and who is refused.

Role: shared by the back ends that compute in this process.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hpcllm.errors import BusyError, GenerationError
from hpcllm.models.backends.pump import POLL_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hpcllm.models.backends.pump import Stop


class Places:
    """Places that are taken in the order of asking; thread-safe.

    Whoever is cancelled while waiting never reaches the engine, so that prompts nobody waits for
    do not pile up in it.

    Args:
        id: name of the model, for messages.
        parallel: answers generated at the same time, at least 1.
        waiting: answers that may wait for a place; one more is refused.
    """

    def __init__(self, id: str, *, parallel: int, waiting: int) -> None:
        self._id = id
        self._parallel = parallel
        self._waiting = waiting
        self._taken = 0
        self._queue: deque[object] = deque()
        self._changed = threading.Condition()
        self._is_closed = False

    @contextmanager
    def place(self, stop: Stop) -> Iterator[bool]:
        """Wait for a place and hold it; False where ``stop`` was set before there was one.

        Raises:
            BusyError: too many are waiting.
            GenerationError: the engine is closed.
        """
        is_given = self._wait(stop)
        try:
            yield is_given
        finally:
            if is_given:
                with self._changed:
                    self._taken -= 1
                    self._changed.notify_all()

    def refuse_closed(self) -> None:
        """Raise GenerationError where the engine is closed."""
        if self._is_closed:
            raise GenerationError(f"the engine of {self._id} is closed: load the model again")

    def close(self) -> None:
        """Give no more places, and wait until those that are taken are free."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._taken == 0)

    def _wait(self, stop: Stop) -> bool:
        ticket = object()
        with self._changed:
            self.refuse_closed()
            if self._is_full() and len(self._queue) >= self._waiting:
                raise BusyError(
                    f"{self._id} is answering {self._parallel} and {self._waiting} more are "
                    "waiting: try again in a moment"
                )
            self._queue.append(ticket)
            try:
                while self._is_full() or self._queue[0] is not ticket:
                    if stop.is_set():
                        return False
                    self._changed.wait(POLL_S)
                    self.refuse_closed()
                self._taken += 1
            finally:
                self._queue.remove(ticket)
                self._changed.notify_all()
        return True

    def _is_full(self) -> bool:
        return self._taken >= self._parallel
