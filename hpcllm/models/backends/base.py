"""The protocol that every generation back end keeps, and what passes through it.

Role: the border between the assistant and the engines. A back end turns messages into a stream of
text; it knows nothing of passages, citations or prompts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from hpcllm.records import Usage

if TYPE_CHECKING:
    import threading
    from collections.abc import Generator, Sequence

Role = Literal["system", "user", "assistant"]
Finish = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt.

    Attributes:
        role: who speaks.
        content: what is said.
    """

    role: Role
    content: str

    def to_json(self) -> dict[str, str]:
        """Return the form that OpenAI-compatible servers take."""
        return {"role": self.role, "content": self.content}


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """How to generate; the defaults are greedy and reproducible.

    Attributes:
        answer_tokens: most tokens to generate, at least 1.
        temperature: 0 takes the likeliest token every time; higher varies more.
        repeat_penalty: factor of at least 1 against tokens just seen; 1 is off. Higher stops
            loops of small models and harms exact copies of commands.
        stop: texts that end the answer; they are not part of it.
        seed: seed of the sampler; without effect at temperature 0.
    """

    answer_tokens: int = 256
    temperature: float = 0.0
    repeat_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int = 1

    def __post_init__(self) -> None:
        """Refuse values that no engine takes."""
        if self.answer_tokens < 1:
            raise ValueError(f"answer_tokens must be at least 1, got {self.answer_tokens}")
        if self.temperature < 0:
            raise ValueError(f"temperature must not be negative, got {self.temperature}")
        if self.repeat_penalty < 1:
            raise ValueError(f"repeat_penalty must be at least 1, got {self.repeat_penalty}")


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """What a finished generation took.

    Attributes:
        finish: ``stop`` (the model ended or a stop text came), ``length`` (the token limit was
            reached: the text is cut) or ``cancelled``.
        usage: prompt and generated tokens as the engine counted them; zeros where it did not say.
        cached_tokens: prompt tokens that were taken from the prompt cache.
        first_token_ms: milliseconds from the request to the first piece of text; 0 without text.
        total_ms: milliseconds from the request to the end.
    """

    finish: Finish
    usage: Usage = field(default_factory=Usage)
    cached_tokens: int = 0
    first_token_ms: float = 0.0
    total_ms: float = 0.0

    @property
    def generated_per_second(self) -> float:
        """Generated tokens a second after the first one; 0 where there are too few to tell."""
        span_s = (self.total_ms - self.first_token_ms) / 1000
        return (
            (self.usage.generated - 1) / span_s if self.usage.generated > 1 and span_s > 0 else 0.0
        )


class TextStream:
    """Pieces of generated text in order; :attr:`result` is set once they are all taken.

    Nothing is sent to the engine before the first piece is asked for. Closing the stream early
    (``close()``, leaving a ``with`` block, or dropping the last reference) frees the engine.

    Args:
        pieces: generator that yields text and returns the :class:`GenerationResult`.

    Attributes:
        result: None until the stream is exhausted.
    """

    def __init__(self, pieces: Generator[str, None, GenerationResult]) -> None:
        self._pieces = pieces
        self.result: GenerationResult | None = None

    def __iter__(self) -> TextStream:
        return self

    def __next__(self) -> str:
        try:
            return next(self._pieces)
        except StopIteration as stop:
            if stop.value is not None:
                self.result = stop.value
            raise StopIteration from None

    def __enter__(self) -> TextStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop generating and free the engine; without effect once exhausted."""
        self._pieces.close()

    def read(self) -> str:
        """Return all text that is left, waiting for its end."""
        return "".join(self)


@runtime_checkable
class Backend(Protocol):
    """What writes text. Safe to call from several threads at once.

    Attributes:
        id: catalog id or name of the model that answers.
        context_tokens: most tokens of prompt and answer together.
    """

    id: str
    context_tokens: int

    def generate(
        self,
        messages: Sequence[Message],
        settings: GenerationSettings,
        *,
        cancel: threading.Event | None = None,
    ) -> TextStream:
        """Start an answer to ``messages``.

        Args:
            messages: the prompt, oldest first; the last one is the user's.
            settings: how to generate.
            cancel: set it from any thread to end the stream at the next piece; the result then
                says ``cancelled``.

        Returns:
            The stream. Taking from it raises GenerationError (the engine failed or refused the
            prompt) or BusyError (it is full now).
        """
        ...

    def count_tokens(self, text: str) -> int:
        """Return the length of ``text`` in the model's tokens; an estimate where it cannot say."""
        ...

    def close(self) -> None:
        """Free the engine. Streams that are still open end with an error."""
        ...
