"""Turn an engine that pushes text from its own call into a stream that is pulled.

Role: shared by the back ends whose engine blocks. The engine runs in a thread; a consumer that
cancels or goes away is answered at once, and the engine is told to stop.
"""

from __future__ import annotations

import atexit
import queue
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hpcllm.models.backends.base import GenerationResult
from hpcllm.records import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    Emit = Callable[[str], None]
    Worker = Callable[["Emit", "Stop"], GenerationResult]

POLL_S = 0.05
"""Seconds between looks at the cancel event while no text comes."""


@dataclass(slots=True, eq=False)
class Stop:
    """Tells a worker to stop; the worker may add how to interrupt a call that blocks it."""

    event: threading.Event = field(default_factory=threading.Event)
    interrupt: Callable[[], None] = field(default=lambda: None)

    def is_set(self) -> bool:
        """Whether the worker should stop."""
        return self.event.is_set()

    def set(self) -> None:
        """Ask the worker to stop."""
        self.event.set()
        self.interrupt()


def pump(
    worker: Worker, cancel: threading.Event | None, *, name: str
) -> Generator[str, None, GenerationResult]:
    """Run ``worker`` in a thread and yield what it emits.

    Args:
        worker: called with a function that takes text and with the stop signal; returns the
            result. It should return soon after the signal is set.
        cancel: set by the consumer's side; the generator then returns a ``cancelled`` result at
            once, while the worker may still be ending.
        name: name of the thread.

    Raises:
        BaseException: whatever the worker raised, after the text that came before it.
    """
    items: queue.SimpleQueue[str | GenerationResult | BaseException] = queue.SimpleQueue()
    stop = Stop()

    def run() -> None:
        try:
            items.put(worker(items.put, stop))
        except BaseException as exc:  # handed to the consumer, whatever it is
            items.put(exc)
        finally:
            _running.pop(stop, None)

    if cancel is not None and cancel.is_set():
        return GenerationResult("cancelled")
    thread = threading.Thread(target=run, name=name, daemon=True)
    _running[stop] = thread
    thread.start()
    pieces = 0
    try:
        while True:
            if cancel is not None and cancel.is_set():
                return GenerationResult("cancelled", Usage(generated=pieces))
            try:
                item = items.get(timeout=POLL_S if cancel is not None else None)
            except queue.Empty:
                continue
            if isinstance(item, GenerationResult):
                return item
            if isinstance(item, BaseException):
                raise item
            pieces += 1
            yield item
    finally:
        stop.set()


_running: dict[Stop, threading.Thread] = {}


@atexit.register
def _stop_all() -> None:
    """Stop what still runs when the process ends, and wait for it.

    An engine must not call back into an interpreter that is gone, and a process that is done must
    not go on generating for nobody: hence daemon threads that are ended here.
    """
    for stop, thread in list(_running.items()):
        stop.set()
        thread.join()
