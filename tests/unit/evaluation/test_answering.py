"""The assistant under evaluation, with a scripted engine and a searcher of fixed passages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from hpcllm.assistant.assistant import Assistant, Options, Writer
from hpcllm.assistant.prompt import PromptBudget
from hpcllm.errors import BusyError, GenerationError
from hpcllm.evaluation.answering import (
    CLOSED_BOOK_SYSTEM,
    AssistantAnswerer,
    ClosedBookAnswerer,
    ObservedBackend,
)
from hpcllm.index.embedders.hashing import HashEmbedder
from hpcllm.models.backends.base import GenerationSettings, Message
from hpcllm.models.backends.scripted import Fault, ScriptedBackend
from hpcllm.records import Question, Turn
from tests.unit.assistant.helpers import FakeSearcher
from tests.unit.evaluation.helpers import question

ASK = question(1, question="Which option requests graphics cards with --gres?")
GOOD = "Request graphics cards with the option `--gres` [1]."
BAD = "Use `sbatch --graphics=2` [1]."


@dataclass
class FakeManifest:
    corpus_sha256: str = "c" * 64
    embedder_id: str = "hashing"
    embedder_sha256: str = "e" * 64
    clusters: tuple[str, ...] = ()


@dataclass
class FakeGeneration:
    name: str = "gen-test"
    manifest: FakeManifest = field(default_factory=FakeManifest)
    closed: bool = False

    def close(self) -> None:
        self.closed = True


def answerer(
    *texts: Any, minimum: float = 0.0, passages: int = 3, embedder: HashEmbedder | None = None
) -> AssistantAnswerer:
    searcher: Any = FakeSearcher(generation=FakeGeneration())  # type: ignore[arg-type]
    writer = Writer(ScriptedBackend(texts), budget=PromptBudget(600, passages)) if texts else None
    assistant = Assistant(
        searcher,
        embedder=embedder or HashEmbedder(),
        writer=writer,
        options=Options(minimum_evidence=minimum),
    )
    return AssistantAnswerer(assistant, settings={"model": "scripted"})


def test_a_draft_that_holds_is_the_answer() -> None:
    found = answerer(GOOD).answer(ASK)
    assert found.final.text == GOOD and found.draft is not None
    assert found.draft.text == GOOD
    assert found.draft.citations == ((1, 0),)
    assert found.passages[0][0] == "handbook/page1.md"
    assert found.fallback == ""
    assert found.measured["generated_tokens"] == len(GOOD.split())


def test_a_rejected_draft_is_kept_beside_the_answer_that_replaced_it() -> None:
    found = answerer(BAD).answer(ASK)
    assert found.model == "extractive" and "--graphics" not in found.final.text
    assert "a command or option in it is not on the pages" in found.fallback
    assert found.draft is not None and found.draft.text == BAD
    assert found.measured["generated_tokens"] == len(BAD.split())


def test_a_refusing_draft_abstains() -> None:
    found = answerer("The documentation does not say.").answer(ASK)
    assert found.draft is not None and found.draft.abstained
    assert not found.final.abstained


def test_a_mark_without_a_passage_points_nowhere() -> None:
    found = answerer("Cards need `--gres` [1][9].").answer(ASK)
    assert found.draft is not None
    assert found.draft.citations == ((1, 0), (9, -1))


def test_marks_are_those_of_the_prompt_not_of_all_passages_found() -> None:
    found = answerer("Cards need `--gres` [2].", passages=1).answer(ASK)
    assert found.draft is not None
    assert found.draft.citations == ((2, -1),)


def test_without_evidence_no_model_writes() -> None:
    found = answerer(GOOD, minimum=1.0).answer(ASK)
    assert found.final.abstained and found.draft is None
    assert 0 < found.confidence < 1


@pytest.mark.parametrize("error", [GenerationError("broke off"), BusyError("full")])
def test_errors_of_the_engine_are_not_covered_by_a_fallback(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        answerer(Fault(error, text="Request")).answer(ASK)


def test_an_error_does_not_cling_to_the_next_question() -> None:
    system = answerer(Fault(GenerationError("broke off")), GOOD)
    with pytest.raises(GenerationError):
        system.answer(ASK)
    assert system.answer(ASK).final.text == GOOD


def test_the_extractive_system_has_no_draft() -> None:
    found = answerer().answer(ASK)
    assert found.draft is None and found.model == "extractive"
    assert "--gres" in found.final.text


def test_what_decides_answers_is_in_the_fingerprint() -> None:
    one, other = answerer(GOOD), answerer(GOOD, passages=2)
    assert one.produced_by == answerer(GOOD).produced_by
    assert one.produced_by != other.produced_by
    assert one.produced_by["index_sha256"] == "c" * 64
    assert {"prompt_sha256", "code_sha256", "model_sha256"} <= set(one.produced_by)


class Reader(HashEmbedder):
    """Reads questions with an adapter."""

    question_adapter = "q"
    question_sha256 = "f" * 64


def test_the_adapter_that_reads_questions_is_in_the_fingerprint() -> None:
    assert "question_adapter" not in answerer().produced_by
    assert answerer(embedder=Reader()).produced_by["question_adapter"] == f"q {'f' * 64}"


def test_closing_lets_go_of_the_index() -> None:
    system = answerer(GOOD)
    generation: Any = system._assistant.searcher.generation
    system.close()
    assert generation.closed


def test_a_closed_book_system_sees_no_passages() -> None:
    backend = ScriptedBackend(["Use `--gres` [1]."])
    asked = Question(
        id="q", question="And for two?", answerable=True, history=(Turn("user", "GPUs?"),)
    )
    found = ClosedBookAnswerer(Writer(backend), settings={}).answer(asked)
    (messages,) = backend.requests
    assert messages[0] == Message("system", CLOSED_BOOK_SYSTEM)
    assert "GPUs?" in messages[1].content and "And for two?" in messages[1].content
    assert "<passage>" not in messages[1].content
    assert found.final.text == "Use `--gres` [1]." and found.final.citations == ((1, -1),)
    assert found.passages == () and found.confidence == 0.0
    assert found.measured["generated_tokens"] == 3


def test_a_closed_book_refusal_abstains() -> None:
    backend = ScriptedBackend(["The documentation does not say."])
    found = ClosedBookAnswerer(Writer(backend), settings={}).answer(ASK)
    assert found.final.abstained


def test_the_observer_changes_nothing() -> None:
    plain, observed = ScriptedBackend([GOOD]), ObservedBackend(ScriptedBackend([GOOD]))
    messages = [Message("user", "x")]
    settings = GenerationSettings(answer_tokens=4)
    assert observed.generate(messages, settings).read() == plain.generate(messages, settings).read()
    assert observed.count_tokens("a b") == 2 and observed.context_tokens == plain.context_tokens
    call = observed.take()
    assert call is not None and call.result is not None and call.result.finish == "length"
    assert observed.take() is None
