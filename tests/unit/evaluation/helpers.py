"""Questions, answers and systems for the tests of evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hpcllm.errors import HpcLlmError
from hpcllm.evaluation.answering import Output, RawAnswer
from hpcllm.evaluation.results import Header, Results, Row
from hpcllm.evaluation.scoring import summarise
from hpcllm.evaluation.systems import System
from hpcllm.records import Question


def question(number: int = 1, **changes: Any) -> Question:
    values: dict[str, Any] = {
        "id": f"q-{number:03}",
        "question": f"What is the limit number {number}?",
        "answerable": True,
        "category": "storage",
        "kind": "how_to",
        "difficulty": "easy",
        "gold_pages": ("handbook/quota.md",),
        "gold_facts": ("50 GB",),
        "fact_alternatives": {"50 GB": ("50 gigabytes",)},
        "gold_answer": "The quota is 50 GB.",
        "split": "test",
    }
    return Question(**values | changes)


def unanswerable(number: int = 1, **changes: Any) -> Question:
    return question(
        number,
        answerable=False,
        gold_pages=(),
        gold_facts=(),
        fact_alternatives={},
        gold_answer="The documentation does not say.",
        **changes,
    )


def answer(text: str = "The quota is 50 GB [1].", **changes: Any) -> RawAnswer:
    values: dict[str, Any] = {
        "final": Output(text, abstained=False, citations=((1, 0),)),
        "model": "test",
        "confidence": 0.8,
        "passages": (("handbook/quota.md", "Each user has a quota of 50 GB."),),
        "measured": {"total_ms": 100.0, "first_token_ms": 40.0},
    }
    return RawAnswer(**values | changes)


def refusal() -> RawAnswer:
    return answer(final=Output("The documentation does not say.", abstained=True), confidence=0.1)


class FakeAnswerer:
    """Answers by a function from question to answer, or raises what that raises."""

    def __init__(
        self,
        reply: Callable[[Question], RawAnswer] | None = None,
        *,
        produced_by: dict[str, Any] | None = None,
    ) -> None:
        self.asked: list[str] = []
        self._reply = reply or (lambda _: answer())
        self.produced_by = produced_by or {"model": "test"}

    def answer(self, asked: Question) -> RawAnswer:
        self.asked.append(asked.id)
        return self._reply(asked)

    def close(self) -> None:
        """Nothing to free."""


def system(name: str = "test", **changes: Any) -> System:
    return System(**{"id": name, "model": "extractive", **changes})


def row(number: int, right: bool, **changes: Any) -> Row:
    """A scored row of an answerable question; ``scores`` are added to those of right and facts."""
    scores = {
        "right": float(right),
        "facts_share": float(right),
        "facts_all": float(right),
        "refused_wrong": 0.0,
        **changes.pop("scores", {}),
    }
    values: dict[str, Any] = {
        "id": f"q-{number:03}",
        "question": f"What is the limit number {number}?",
        "category": "storage",
        "difficulty": "easy",
        "language": "en",
        "kind": "how_to",
        "split": "test",
        "answerable": True,
        "gold_answer": "The quota is 50 GB.",
        "status": "ok",
        "error": "",
        "text": "The quota is 50 GB [1].",
        "abstained": False,
        "fallback": "",
        "model": "test",
        "confidence": 0.5,
        "citations": [[1, "handbook/quota.md"]],
        "pages": ["handbook/quota.md"],
        "invented": [],
        "scores": scores,
        "measured": {"total_ms": 100.0 + number, "peak_memory_mib": 200.0},
    }
    return Row(**values | changes)


def results(name: str, rows: Sequence[Row], **changes: Any) -> Results:
    values: dict[str, Any] = {
        "system": name,
        "settings": {"id": name, "label": ""},
        "produced_by": {"model": name},
        "questions": {"name": "test", "count": len(rows), "sha256": "0" * 64},
        "versions": {"hpcllm": "0"},
        "failed": sum(r.status == "failed" for r in rows),
        "summary": summarise(rows),
    }
    return Results(Header(**values | changes), tuple(rows))


def failing(error: HpcLlmError) -> Callable[[Question], RawAnswer]:
    def reply(_: Question) -> RawAnswer:
        raise error

    return reply
