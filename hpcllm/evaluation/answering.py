"""What answers for a system: the assistant, or a bare model without passages.

Role: the border between evaluation and the product. With retrieval every answer comes from
:meth:`Assistant.answer`; a wrapper around the engine keeps what the model wrote before it was
checked, and the engine's own errors, which the assistant would cover with an extractive answer.
"""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from hpcllm.assistant.check import marks_in
from hpcllm.assistant.draft import is_refusal
from hpcllm.assistant.evidence import assess
from hpcllm.assistant.prompt import REFUSALS, SYSTEM, TAILS, build_messages
from hpcllm.errors import GenerationError
from hpcllm.models.backends.base import Message, TextStream

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from hpcllm.assistant.assistant import Assistant, Writer
    from hpcllm.index.ranker import Ranker
    from hpcllm.models.backends.base import Backend, GenerationResult, GenerationSettings
    from hpcllm.records import Answer, Passage, Question, Turn

CLOSED_BOOK_SYSTEM = (
    "You answer questions of users of a computing centre. Be brief. Give exact commands and "
    f'values. If you do not know, reply only: "{REFUSALS["en"]}"'
)
"""Instructions of a model that is given no passages."""


@dataclass(frozen=True, slots=True)
class Output:
    """One text of a system: the final answer or the model's draft.

    Attributes:
        text: Markdown with ``[n]`` marks.
        abstained: whether it refuses.
        citations: pairs of number and index into the passages found, from 0; -1 for a number
            that no passage has.
    """

    text: str
    abstained: bool
    citations: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """All that is kept of one answer; scores are computed from it at any time.

    Attributes:
        final: what a user sees.
        draft: what the model wrote, before checks; None where no model wrote.
        model: what wrote the final text.
        fallback: why the extractive answer replaced the draft, or empty.
        confidence: evidence for an answer, 0 to 1; 0 without retrieval.
        passages: ``source/path`` and text of the passages found, best first.
        measured: milliseconds and tokens.
    """

    final: Output
    model: str
    draft: Output | None = None
    fallback: str = ""
    confidence: float = 0.0
    passages: tuple[tuple[str, str], ...] = ()
    measured: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the form that is stored."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RawAnswer:
        """Read the form that is stored."""
        return cls(
            final=_output(data["final"]),
            model=data["model"],
            draft=_output(data["draft"]) if data["draft"] else None,
            fallback=data["fallback"],
            confidence=data["confidence"],
            passages=tuple((page, text) for page, text in data["passages"]),
            measured=data["measured"],
        )


def _output(data: Mapping[str, Any]) -> Output:
    citations = tuple((number, index) for number, index in data["citations"])
    return Output(data["text"], data["abstained"], citations)


class Answerer(Protocol):
    """Answers questions for one system. Safe to call from several threads.

    Attributes:
        produced_by: hashes and names of everything that decides the answers.
    """

    @property
    def produced_by(self) -> Mapping[str, Any]:
        """Hashes and names of everything that decides the answers."""
        ...

    def answer(self, question: Question) -> RawAnswer:
        """Answer a question.

        Raises:
            GenerationError: the engine failed; trying again can help.
            HpcLlmError: the question cannot be answered at all.
        """
        ...

    def close(self) -> None:
        """Free the engine."""
        ...


@dataclass(slots=True)
class _Call:
    """What one generation was given and gave."""

    messages: tuple[Message, ...]
    text: str = ""
    error: GenerationError | None = None
    result: GenerationResult | None = None


class ObservedBackend:
    """Passes everything to a back end and remembers the last generation of each thread.

    Args:
        backend: the engine.
    """

    def __init__(self, backend: Backend) -> None:
        self.id = backend.id
        self.context_tokens = backend.context_tokens
        self._backend = backend
        self._local = threading.local()

    def generate(
        self,
        messages: Sequence[Message],
        settings: GenerationSettings,
        *,
        cancel: threading.Event | None = None,
    ) -> TextStream:
        """Start an answer; see :class:`~hpcllm.models.backends.base.Backend`."""
        call = _Call(tuple(messages))
        self._local.call = call
        return TextStream(self._pieces(call, settings, cancel))

    def _pieces(
        self, call: _Call, settings: GenerationSettings, cancel: threading.Event | None
    ) -> Generator[str, None, GenerationResult]:
        stream = self._backend.generate(call.messages, settings, cancel=cancel)
        try:
            with stream:
                for piece in stream:
                    call.text += piece
                    yield piece
        except GenerationError as exc:
            call.error = exc
            raise
        if stream.result is None:
            raise GenerationError(f"{self.id} ended without saying how: ask again")
        call.result = stream.result
        return stream.result

    def take(self) -> _Call | None:
        """Return the last generation of this thread, once."""
        call: _Call | None = getattr(self._local, "call", None)
        self._local.call = None
        return call

    def count_tokens(self, text: str) -> int:
        """Return the length of ``text`` in the engine's tokens."""
        return self._backend.count_tokens(text)

    def close(self) -> None:
        """Free the engine."""
        self._backend.close()


class AssistantAnswerer:
    """Answers through the assistant.

    Args:
        assistant: as users have it; its writer is replaced by one that is observed.
        settings: the system's settings, part of the fingerprint.
    """

    def __init__(self, assistant: Assistant, *, settings: Mapping[str, Any]) -> None:
        self._assistant = assistant
        self._settings = dict(settings)
        self._observed: ObservedBackend | None = None
        if assistant.writer is not None:
            self._observed = ObservedBackend(assistant.writer.backend)
            assistant.writer = replace(assistant.writer, backend=self._observed)

    @property
    def produced_by(self) -> dict[str, Any]:
        """Hashes and names of everything that decides the answers."""
        from hpcllm.evaluation.fingerprints import code_sha256, json_sha256

        manifest = self._assistant.searcher.generation.manifest
        writer = self._assistant.writer
        return {
            "settings": self._settings,
            "options": asdict(self._assistant.options),
            "index_sha256": manifest.corpus_sha256,
            "embedder": f"{manifest.embedder_id} {manifest.embedder_sha256}",
            **_question_reader(self._assistant.embedder),
            **_ranker_identity(self._assistant.ranker),
            "prompt_sha256": json_sha256([SYSTEM, TAILS, REFUSALS]),
            "code_sha256": code_sha256(),
            **(_writer_identity(writer) if writer else {"model": "extractive"}),
        }

    def answer(self, question: Question) -> RawAnswer:
        """Answer a question; see :class:`Answerer`."""
        if self._observed:
            self._observed.take()
        answer = self._assistant.answer(
            question.question, history=question.history, cluster=question.cluster
        )
        call = self._observed.take() if self._observed else None
        if call and call.error:
            raise call.error
        evidence = assess(answer.standalone_question or answer.question, answer.passages)
        return RawAnswer(
            final=_final(answer),
            draft=self._draft(question, answer, call) if call else None,
            model=answer.model,
            fallback=answer.fallback,
            confidence=evidence.score,
            passages=tuple((f"{p.source}/{p.path}", p.text) for p in answer.passages),
            measured=_measured(answer, call),
        )

    def _draft(self, question: Question, answer: Answer, call: _Call) -> Output:
        text = call.text.strip()
        shown = self._prompt_passages(question, answer, call)
        index = {id(passage): place for place, passage in enumerate(answer.passages)}
        numbers = {n: index[id(passage)] for n, passage in enumerate(shown, 1)}
        citations = tuple((n, numbers.get(n, -1)) for n in sorted(marks_in(text)))
        return Output(text, is_refusal(text), citations)

    def _prompt_passages(
        self, question: Question, answer: Answer, call: _Call
    ) -> tuple[Passage, ...]:
        """Return the passages that the model read: building its prompt again tells."""
        writer = self._assistant.writer
        if writer is None:
            return ()
        histories: tuple[Sequence[Turn], ...] = ((), question.history)
        for history in histories:
            prompt = build_messages(
                question.question,
                answer.passages,
                history=history,
                budget=writer.budget,
                count_tokens=writer.backend.count_tokens,
            )
            if prompt.messages == call.messages:
                return prompt.passages
        return answer.passages[: writer.budget.passages]

    def close(self) -> None:
        """Free the engine and let go of the index."""
        self._assistant.close()
        self._assistant.searcher.generation.close()


class ClosedBookAnswerer:
    """Asks a model without passages: what it knows by itself.

    Args:
        writer: the model.
        settings: the system's settings, part of the fingerprint.
    """

    def __init__(self, writer: Writer, *, settings: Mapping[str, Any]) -> None:
        self._writer = writer
        self._settings = dict(settings)

    @property
    def produced_by(self) -> dict[str, Any]:
        """Hashes and names of everything that decides the answers."""
        from hpcllm.evaluation.fingerprints import code_sha256, json_sha256

        return {
            "settings": self._settings,
            "prompt_sha256": json_sha256([CLOSED_BOOK_SYSTEM, TAILS]),
            "code_sha256": code_sha256(),
            **_writer_identity(self._writer),
        }

    def answer(self, question: Question) -> RawAnswer:
        """Answer a question; see :class:`Answerer`."""
        started = time.perf_counter()
        asked = build_messages(
            question.question,
            (),
            history=question.history,
            budget=self._writer.budget,
            count_tokens=self._writer.backend.count_tokens,
        )
        messages = (Message("system", CLOSED_BOOK_SYSTEM), asked.messages[-1])
        with self._writer.backend.generate(messages, self._writer.settings) as stream:
            text = stream.read().strip()
        result = stream.result
        measured = {"total_ms": (time.perf_counter() - started) * 1000}
        if result:
            measured |= {
                "first_token_ms": result.first_token_ms,
                "prompt_tokens": float(result.usage.prompt),
                "generated_tokens": float(result.usage.generated),
            }
        output = Output(text, is_refusal(text), tuple((n, -1) for n in sorted(marks_in(text))))
        return RawAnswer(output, self._writer.backend.id, draft=output, measured=measured)

    def close(self) -> None:
        """Free the engine."""
        self._writer.backend.close()


def _question_reader(embedder: Any) -> dict[str, Any]:
    """Return name and hash of the adapter that questions are read with, where there is one."""
    adapter = getattr(embedder, "question_adapter", "")
    return {"question_adapter": f"{adapter} {embedder.question_sha256}"} if adapter else {}


def _ranker_identity(ranker: Ranker | None) -> dict[str, Any]:
    """Return name and hash of what chooses the quoted lines, where there is one."""
    return {"ranker": f"{ranker.id} {ranker.sha256}"} if ranker else {}


def _writer_identity(writer: Writer) -> dict[str, Any]:
    return {
        "model": writer.backend.id,
        "model_sha256": writer.sha256,
        "adapter_sha256": writer.adapter,
        "adapted": writer.adapted,
        "quotes": writer.quotes,
        "refusal_evidence": writer.refusal_evidence,
        "budget": asdict(writer.budget),
        "generation": asdict(writer.settings),
    }


def _final(answer: Answer) -> Output:
    places = {passage.rank: index for index, passage in enumerate(answer.passages)}
    citations = tuple((c.number, places.get(c.passage_rank, -1)) for c in answer.citations)
    return Output(answer.text, answer.abstained, citations)


def _measured(answer: Answer, call: _Call | None) -> dict[str, float]:
    """Return milliseconds and tokens; those of a rejected draft count, for they were spent."""
    usage = call.result.usage if call and call.result else answer.usage
    return {
        "retrieve_ms": answer.timings_ms.get("retrieve", 0.0),
        "first_token_ms": answer.timings_ms.get("first_token", 0.0),
        "total_ms": answer.timings_ms.get("total", 0.0),
        "prompt_tokens": float(usage.prompt),
        "generated_tokens": float(usage.generated),
    }
