"""Serve the newest generation of the index: swap when it changes, keep the old until it is idle.

Role: the service borrows an assistant for each request and never notices a swap. The model and the
embedder are shared by all of them. Thread-safe.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from hpcllm.assistant.assistant import Assistant
from hpcllm.errors import HpcLlmError, StoreError
from hpcllm.index.generation import current_name, open_current
from hpcllm.index.search import Searcher

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hpcllm.index.generation import Generation

logger = logging.getLogger(__name__)

RETRY_S = 30.0
"""Seconds after which a generation that could not be opened is tried again."""
WARM_UP = "how do I submit a job"
"""Searched once in a new generation before anybody waits for it: it reads what is mapped lazily."""


class _Served:
    """An assistant with the number of requests that use it."""

    def __init__(self, assistant: Assistant) -> None:
        self.assistant = assistant
        self.users = 0
        self.is_retired = False

    def close_if_idle(self) -> None:
        if self.is_retired and self.users == 0:
            self.assistant.searcher.generation.close()


class Follower:
    """Lends the assistant of the newest generation.

    Args:
        assistant: the first one; its model is closed with the follower.
        index_dir: folder of the index; None serves the first generation for good.
    """

    def __init__(self, assistant: Assistant, index_dir: Path | None) -> None:
        self._index_dir = index_dir
        self._served = _Served(assistant)
        self._lock = threading.Lock()
        self._refreshing = threading.Lock()
        self._refused: tuple[str, float] | None = None
        self.problem = ""
        """Why the newest generation is not the one served, or empty."""

    @property
    def assistant(self) -> Assistant:
        """The assistant of the newest generation; to ask it, use :meth:`lend`."""
        return self._served.assistant

    @contextmanager
    def lend(self) -> Iterator[Assistant]:
        """Lend the newest assistant; its generation stays open until it is given back."""
        with self._lock:
            served = self._served
            served.users += 1
        try:
            yield served.assistant
        finally:
            with self._lock:
                served.users -= 1
                served.close_if_idle()

    def refresh(self) -> bool:
        """Look whether another generation is current and swap to it; cheap where none is.

        Returns:
            Whether it swapped. A generation that cannot be used is logged once, named in
            :attr:`problem` and tried again later; the one served so far stays.
        """
        if self._index_dir is None:
            return False
        with self._refreshing:
            try:
                name = current_name(self._index_dir)
                if name is None or name == self.assistant.searcher.generation.name:
                    self._refused, self.problem = None, ""
                    return False
                if self._refused and self._refused[0] == name and not self._is_due():
                    return False
                self._swap(self._open(name))
            except HpcLlmError as exc:
                self._refuse(name or "", exc)
                return False
            self._refused, self.problem = None, ""
            logger.info("serving generation %s of the index", name)
            return True

    def _is_due(self) -> bool:
        return self._refused is not None and time.monotonic() - self._refused[1] > RETRY_S

    def _refuse(self, name: str, error: HpcLlmError) -> None:
        if self._refused is None or self._refused[0] != name:
            logger.warning("generation %s of the index cannot be served: %s", name, error)
        self._refused = (name, time.monotonic())
        self.problem = f"generation {name} cannot be served: {error}"

    def _open(self, name: str) -> Assistant:
        assert self._index_dir is not None
        generation = open_current(self._index_dir)
        try:
            if generation.name != name:
                raise StoreError(f"it is damaged, {generation.name} was opened in its place")
            return self._assistant(generation)
        except BaseException:
            generation.close()
            raise

    def _assistant(self, generation: Generation) -> Assistant:
        old = self.assistant
        searcher = Searcher(generation, old.embedder)
        searcher.search(WARM_UP, k=1)
        names = (old.options.cluster, *generation.manifest.clusters)
        clusters = tuple(dict.fromkeys(name for name in names if name))
        return Assistant(
            searcher,
            embedder=old.embedder,
            writer=old.writer,
            options=replace(old.options, clusters=clusters),
            unavailable=old.unavailable,
        )

    def _swap(self, assistant: Assistant) -> None:
        with self._lock:
            old, self._served = self._served, _Served(assistant)
            old.is_retired = True
            old.close_if_idle()

    def close(self) -> None:
        """Close the model, and the generation once nobody uses it."""
        with self._lock:
            self._served.is_retired = True
            self._served.close_if_idle()
        self.assistant.close()
