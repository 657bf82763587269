"""Evaluation questions: reading them, and checking that they are sound.

Role: ``*.jsonl -> list[Question]``, used by evaluation runs, the gate, decontamination and
``make check``. Knows nothing of systems or metrics.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from hpcllm.errors import EvaluationError, nearest
from hpcllm.evaluation.facts import holds_fact
from hpcllm.records import Question, Turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

CATEGORIES = (
    "accounts",
    "transfer",
    "storage",
    "modules",
    "slurm-basics",
    "slurm-advanced",
    "gpus",
    "mpi-openmp",
    "containers-python",
    "failures",
    "policies",
)
DIFFICULTIES = ("easy", "medium", "hard")
LANGUAGES = ("en", "pt")
KINDS = (
    "keyword",
    "how_to",
    "email",
    "error",
    "synonym",
    "typo",
    "policy",
    "table_lookup",
    "multi_fact",
    "false_premise",
    "code_block",
    "comparison",
    "version",
    "follow_up",
    "stale_twin",
    "unanswerable",
    "unanswerable_near",
)
FIELDS = (
    "id",
    "question",
    "history",
    "category",
    "kind",
    "difficulty",
    "language",
    "lang",
    "cluster",
    "answerable",
    "gold_pages",
    "gold_facts",
    "fact_alternatives",
    "gold_commands",
    "gold_answer",
    "split",
    "group",
)
NEAR_DUPLICATE = 0.8
"""Share of common word pairs from which two questions count as the same one."""


def load_questions(path: Path) -> list[Question]:
    """Read one ``.jsonl`` file, or all of a folder in the order of their names.

    Args:
        path: a file or a folder.

    Returns:
        The questions in file order.

    Raises:
        EvaluationError: nothing is there, or lines are malformed; all problems are listed.
    """
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise EvaluationError(f"{path} holds no question files: expected *.jsonl")
    questions: list[Question] = []
    problems: list[str] = []
    for file in files:
        for number, line in enumerate(_lines(file), 1):
            if not line.strip():
                continue
            try:
                questions.append(parse_question(json.loads(line)))
            except ValueError as exc:
                problems.append(f"{file.name} line {number}: {exc}")
    if problems:
        raise EvaluationError("\n".join([f"{len(problems)} malformed question(s):", *problems]))
    return questions


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as exc:
        raise EvaluationError(f"{file} does not exist: expected a question file") from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise EvaluationError(f"{file} cannot be read as UTF-8 text: {exc}") from exc


def parse_question(row: Any) -> Question:
    """Turn one JSON object into a question.

    Raises:
        ValueError: a field is missing, unknown or of the wrong type.
    """
    if not isinstance(row, dict):
        raise ValueError(f"expected a JSON object, got {type(row).__name__}")
    for name in row:
        if name not in FIELDS:
            raise ValueError(f"unknown field {name!r}{nearest(name, FIELDS)}")
    for name, kind in (("id", str), ("question", str), ("answerable", bool)):
        if not isinstance(row.get(name), kind):
            raise ValueError(f"{name!r} must be {kind.__name__}, got {row.get(name)!r}")
    if row["answerable"] and not row.get("gold_facts"):
        raise ValueError(f"{row['id']}: an answerable question needs gold_facts")
    try:
        history = tuple(Turn(turn["role"], turn["text"]) for turn in row.get("history") or ())
    except (TypeError, KeyError) as exc:
        raise ValueError(f"{row['id']}: history must be a list of {{role, text}}") from exc
    return Question(
        id=row["id"],
        question=row["question"],
        answerable=row["answerable"],
        history=history,
        category=row.get("category", ""),
        kind=row.get("kind", ""),
        difficulty=row.get("difficulty", ""),
        language=row.get("language") or row.get("lang") or "en",
        cluster=row.get("cluster"),
        gold_pages=tuple(row.get("gold_pages") or ()),
        gold_facts=tuple(row.get("gold_facts") or ()),
        fact_alternatives={k: tuple(v) for k, v in (row.get("fact_alternatives") or {}).items()},
        gold_commands=tuple(row.get("gold_commands") or ()),
        gold_answer=row.get("gold_answer", ""),
        split=row.get("split", ""),
    )


def check_questions(questions: Iterable[Question], corpus_dir: Path) -> list[str]:
    """Return what is wrong with a set of questions, one line each; empty when all is well.

    Args:
        questions: the whole set.
        corpus_dir: folder that ``gold_pages`` are relative to.
    """
    questions = list(questions)
    problems = [
        f"{identity}: used {count} times"
        for identity, count in Counter(q.id for q in questions).items()
        if count > 1
    ]
    pages: dict[str, str | None] = {}
    for question in questions:
        problems += [f"{question.id}: {text}" for text in _problems(question, corpus_dir, pages)]
    problems += [f"{a} and {b} are near duplicates" for a, b in near_duplicates(questions)]
    return problems


def count_questions(questions: Iterable[Question]) -> dict[str, dict[str, int]]:
    """Count a set of questions by its fields; ``total`` holds the number of all."""
    questions = list(questions)
    counts = {"total": {"questions": len(questions)}}
    for field in ("category", "difficulty", "language", "kind", "split", "cluster"):
        found = Counter(str(getattr(question, field) or "none") for question in questions)
        counts[field] = dict(sorted(found.items()))
    counts["answerable"] = {
        "yes": sum(q.answerable for q in questions),
        "no": sum(not q.answerable for q in questions),
    }
    counts["other"] = {
        "with history": sum(bool(q.history) for q in questions),
        "with commands": sum(bool(q.gold_commands) for q in questions),
        "facts": sum(len(q.gold_facts) for q in questions),
    }
    return counts


def check_counts(
    questions: Iterable[Question], expected: Mapping[str, Mapping[str, int]]
) -> list[str]:
    """Return where a set of questions differs from the counts that are stated of it.

    Args:
        questions: the whole set.
        expected: counts by field and value in the form of :func:`count_questions`; what is not
            stated is not checked.
    """
    counts = count_questions(questions)
    return [
        f"{field} {value}: {counts.get(field, {}).get(value, 0)} questions, stated are {number}"
        for field, values in expected.items()
        for value, number in values.items()
        if counts.get(field, {}).get(value, 0) != number
    ]


def _problems(question: Question, corpus_dir: Path, pages: dict[str, str | None]) -> Iterator[str]:
    for name, value, known in (
        ("category", question.category, CATEGORIES),
        ("kind", question.kind, KINDS),
        ("difficulty", question.difficulty, DIFFICULTIES),
        ("language", question.language, LANGUAGES),
    ):
        if value not in known:
            yield f"{name} {value!r} is unknown{nearest(value, known)}"
    if not question.gold_answer:
        yield "gold_answer is empty"
    if not question.answerable:
        if question.gold_pages or question.gold_facts:
            yield "an unanswerable question has neither gold_pages nor gold_facts"
        return
    if not question.gold_pages:
        yield "gold_pages is empty"
    for page in question.gold_pages:
        if _page(page, corpus_dir, pages) is None:
            yield f"gold page {page} does not exist"
    first = _page(question.gold_pages[0], corpus_dir, pages) if question.gold_pages else None
    yield from _fact_problems(question, first or "")


def _fact_problems(question: Question, page: str) -> Iterator[str]:
    for fact in question.gold_facts:
        if page and not holds_fact(page, fact):
            yield f"fact {fact!r} does not stand in {question.gold_pages[0]}"
        for form in (fact, *question.fact_alternatives.get(fact, ())):
            if holds_fact(question.question, form):
                yield f"fact {form!r} stands in the question already"
        if not holds_fact(question.gold_answer, fact, question.fact_alternatives.get(fact, ())):
            yield f"gold_answer lacks the fact {fact!r}"
    for fact in question.fact_alternatives:
        if fact not in question.gold_facts:
            yield f"fact_alternatives names {fact!r}, which is no gold fact"


def _page(page: str, corpus_dir: Path, pages: dict[str, str | None]) -> str | None:
    if page not in pages:
        path = corpus_dir / page
        pages[page] = path.read_text(encoding="utf-8") if path.is_file() else None
    return pages[page]


def near_duplicates(questions: Iterable[Question]) -> list[tuple[str, str]]:
    """Return pairs of ids whose questions share most of their word pairs.

    Compared by the Jaccard index of the sets of neighbouring words, at least
    :data:`NEAR_DUPLICATE`; follow-ups are compared together with their history.
    """
    grams = {q.id: _word_pairs(q) for q in questions}
    holders: dict[tuple[str, str], list[str]] = {}
    shared: Counter[tuple[str, str]] = Counter()
    for identity, pairs in grams.items():
        for pair in pairs:
            for other in holders.get(pair, ()):
                shared[other, identity] += 1
            holders.setdefault(pair, []).append(identity)
    return [
        (a, b)
        for (a, b), common in shared.items()
        if common / (len(grams[a]) + len(grams[b]) - common) >= NEAR_DUPLICATE
    ]


def _word_pairs(question: Question) -> set[tuple[str, str]]:
    text = " ".join([*(turn.text for turn in question.history), question.question])
    words = ["", *re.findall(r"\w+", text.lower()), ""]
    return set(itertools.pairwise(words))
