"""Replay given texts: a back end without a model, for tests and for trying the product out.

Role: a real implementation of the protocol with no dependency. It can fail on purpose.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcllm.errors import GenerationError
from hpcllm.models.backends.base import GenerationResult, TextStream
from hpcllm.records import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from hpcllm.models.backends.base import GenerationSettings, Message

_WORD = re.compile(r"\s*\S+|\s+$")


@dataclass(frozen=True, slots=True)
class Fault:
    """An answer that breaks off.

    Attributes:
        error: what is raised.
        text: what comes before it.
    """

    error: Exception
    text: str = ""


class ScriptedBackend:
    """Gives its answers in order, over and over; one word is one token and one piece.

    Args:
        answers: texts, faults, or functions from the messages to a text; at least one.
        id: name for results.
        context_tokens: most words of prompt and answer; a longer prompt is refused.
        delay_s: seconds before each piece.

    Attributes:
        requests: the messages of every request whose stream was begun, oldest first.
    """

    def __init__(
        self,
        answers: Sequence[str | Fault | Callable[[Sequence[Message]], str]],
        *,
        id: str = "scripted",
        context_tokens: int = 4096,
        delay_s: float = 0.0,
    ) -> None:
        if not answers:
            raise ValueError("answers must hold at least one text, got none")
        self.id = id
        self.context_tokens = context_tokens
        self.requests: list[tuple[Message, ...]] = []
        self._answers = tuple(answers)
        self._delay_s = delay_s
        self._lock = threading.Lock()
        self._is_closed = False

    def generate(
        self,
        messages: Sequence[Message],
        settings: GenerationSettings,
        *,
        cancel: threading.Event | None = None,
    ) -> TextStream:
        """Start an answer; see :class:`~hpcllm.models.backends.base.Backend`."""
        return TextStream(self._pieces(tuple(messages), settings, cancel or threading.Event()))

    def _pieces(
        self, messages: tuple[Message, ...], settings: GenerationSettings, cancel: threading.Event
    ) -> Generator[str, None, GenerationResult]:
        started = time.perf_counter()
        answer = self._next(messages)
        prompt = self._checked_length(messages)
        text = answer.text if isinstance(answer, Fault) else answer
        for word in settings.stop:
            text = text.partition(word)[0]
        words = _WORD.findall(text)
        first_ms = 0.0
        for number, word in enumerate(words[: settings.answer_tokens]):
            if cancel.wait(self._delay_s) if self._delay_s else cancel.is_set():
                return GenerationResult("cancelled", Usage(prompt, number))
            first_ms = first_ms or (time.perf_counter() - started) * 1000
            yield word
        if isinstance(answer, Fault):
            raise answer.error
        count = min(len(words), settings.answer_tokens)
        return GenerationResult(
            "cancelled" if cancel.is_set() else "stop" if count == len(words) else "length",
            Usage(prompt, count),
            first_token_ms=first_ms,
            total_ms=(time.perf_counter() - started) * 1000,
        )

    def _next(self, messages: tuple[Message, ...]) -> str | Fault:
        with self._lock:
            if self._is_closed:
                raise GenerationError(f"{self.id} is closed: make a new one")
            answer = self._answers[len(self.requests) % len(self._answers)]
            self.requests.append(messages)
        return answer(messages) if callable(answer) else answer

    def _checked_length(self, messages: tuple[Message, ...]) -> int:
        length = sum(self.count_tokens(message.content) for message in messages)
        if length >= self.context_tokens:
            raise GenerationError(
                f"the prompt has {length} tokens and {self.id} has room for "
                f"{self.context_tokens}: ask a shorter question or pass fewer passages"
            )
        return length

    def count_tokens(self, text: str) -> int:
        """Return the number of words."""
        return len(text.split())

    def close(self) -> None:
        """Refuse further requests."""
        with self._lock:
            self._is_closed = True
