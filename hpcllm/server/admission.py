"""The one queue in front of the model: so many at a time, so many waiting, the rest sent away.

Role: fair (first come, first served) and free of leaks: a caller that leaves gives its place up at
once, wherever it stands. Everything here runs in one event loop; nothing locks.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque

from hpcllm.errors import BusyError

FIRST_GUESS_S = 4.0
"""Seconds that one turn is assumed to take before any was measured."""
SMOOTHING = 0.2
"""Weight of the latest turn in the running mean of their durations."""
LONGEST_RETRY_S = 120.0
"""Nobody is told to come back later than after this."""


class Admission:
    """Admits callers in order.

    Args:
        parallel: turns at the same time, at least 1.
        waiting: callers that may wait beyond those.
        what: what is waited for, for messages.
    """

    def __init__(self, *, parallel: int, waiting: int, what: str = "the model") -> None:
        if parallel < 1 or waiting < 0:
            raise ValueError(f"parallel must be >= 1 and waiting >= 0, got {parallel}, {waiting}")
        self.parallel = parallel
        self.waiting_limit = waiting
        self._what = what
        self._running = 0
        self._queue: deque[Place] = deque()
        self._turn_s = FIRST_GUESS_S

    @property
    def running(self) -> int:
        """Turns being taken now."""
        return self._running

    @property
    def waiting(self) -> int:
        """Callers waiting now."""
        return len(self._queue)

    def reserve(self) -> Place:
        """Take a place; it must be released.

        Raises:
            BusyError: as many as may are waiting already.
        """
        place = Place(self)
        if self._running < self.parallel:
            self._start(place)
        elif len(self._queue) < self.waiting_limit:
            self._queue.append(place)
        else:
            raise BusyError(
                f"{len(self._queue)} others are waiting for {self._what}: try again in "
                f"{self.retry_after_s():.0f} seconds",
                retry_after_s=self.retry_after_s(),
            )
        return place

    def retry_after_s(self) -> float:
        """Return the whole seconds after which a place should be free, at least 1."""
        ahead = (len(self._queue) + 1) / self.parallel
        return float(min(max(1, math.ceil(ahead * self._turn_s)), LONGEST_RETRY_S))

    def _start(self, place: Place) -> None:
        self._running += 1
        place.started = time.monotonic()
        if not place.turn.done():
            place.turn.set_result(None)

    def _leave(self, place: Place) -> None:
        if place.started is None:
            self._queue.remove(place)
            return
        self._running -= 1
        took = time.monotonic() - place.started
        self._turn_s += SMOOTHING * (took - self._turn_s)
        if self._queue:
            self._start(self._queue.popleft())

    def _ahead_of(self, place: Place) -> int:
        return self._queue.index(place) if place in self._queue else 0


class Place:
    """One caller's place; made by :meth:`Admission.reserve`.

    Attributes:
        turn: done once it is the caller's turn.
        started: when its turn began, or None.
    """

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._is_released = False
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.started: float | None = None

    @property
    def ahead(self) -> int:
        """Callers that wait in front of this one."""
        return self._admission._ahead_of(self)

    async def wait(self) -> None:
        """Wait for the turn; a caller that is cancelled meanwhile gives its place up."""
        try:
            await asyncio.shield(self.turn)
        except asyncio.CancelledError:
            self.release()
            raise

    def release(self) -> None:
        """Give the place up, waiting or running; a second time does nothing."""
        if not self._is_released:
            self._is_released = True
            self._admission._leave(self)
