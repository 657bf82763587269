"""Split the questions: development and test, a smoke subset, a subset for slow models.

The assignment is stratified by category, answerability and language and depends on nothing but
the ids, the groups and the seed. Development questions are for choosing thresholds and prompts;
the others are looked at when that is done.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from hpcllm.errors import EvaluationError
from hpcllm.evaluation.facts import normalise
from hpcllm.evaluation.questions import parse_question

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from hpcllm.records import Question

SMOKE_FILE = "smoke.txt"
GOLDEN_FILE = "golden.txt"
GOLDEN = 60
"""Development questions for the gate, at most."""


def group_questions(questions: Sequence[Question], marked: dict[str, str]) -> list[list[Question]]:
    """Return the questions in groups that belong to one split.

    Together belong: questions with the same mark; a question and the follow-up to it; a question
    and its twin in another language (a common gold page and the same facts).

    Args:
        questions: all, in any order.
        marked: marks by question id.
    """
    leader = {question.id: question.id for question in questions}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for first, second in _links(questions, marked):
        one, other = sorted((find(first), find(second)))
        leader[other] = one
    groups: dict[str, list[Question]] = {}
    for question in sorted(questions, key=lambda each: each.id):
        groups.setdefault(find(question.id), []).append(question)
    return list(groups.values())


def _links(questions: Sequence[Question], marked: dict[str, str]) -> Iterable[tuple[str, str]]:
    by_mark: dict[str, str] = {}
    by_text = {normalise(question.question): question.id for question in questions}
    for question in questions:
        if mark := marked.get(question.id):
            yield question.id, by_mark.setdefault(mark, question.id)
        for turn in question.history:
            if turn.role == "user" and (other := by_text.get(normalise(turn.text))):
                yield question.id, other
    foreign = [question for question in questions if question.language != "en"]
    for question in foreign:
        for other_question in questions:
            if other_question.language == "en" and are_twins(question, other_question):
                yield question.id, other_question.id


def are_twins(first: Question, second: Question) -> bool:
    """Say whether two questions ask for the same facts of a common page."""
    if not set(first.gold_pages) & set(second.gold_pages):
        return False
    return len(first.gold_facts) == len(second.gold_facts) and all(
        any(_spellings(first, a) & _spellings(second, b) for b in second.gold_facts)
        for a in first.gold_facts
    )


def _spellings(question: Question, fact: str) -> set[str]:
    return {normalise(form) for form in (fact, *question.fact_alternatives.get(fact, ()))}


def pick(groups: Sequence[Sequence[Question]], count: int, *, seed: int) -> set[str]:
    """Pick groups with ``count`` questions in all, spread evenly over the strata.

    Args:
        groups: what stays together; a group counts to the stratum of its first question.
        count: questions to pick.
        seed: another seed is another choice.

    Returns:
        Their ids.

    Raises:
        EvaluationError: the groups do not allow exactly so many.
    """
    total = sum(len(group) for group in groups)
    if count > total:
        raise EvaluationError(f"{count} questions are wanted and there are {total}: ask for fewer")
    strata: dict[tuple[str, bool, str], list[Sequence[Question]]] = {}
    for group in sorted(groups, key=lambda g: _order(seed, g[0].id)):
        strata.setdefault(_stratum(group[0]), []).append(group)
    picked: set[str] = set()
    for stratum, quota in _quotas(strata, count, total, seed).items():
        _fill(strata[stratum], quota, picked)
    rest = [g for s in sorted(strata) for g in strata[s] if g[0].id not in picked]
    _fill(sorted(rest, key=lambda g: _order(seed, g[0].id)), count - len(picked), picked)
    if len(picked) != count:
        raise EvaluationError(
            f"groups of questions do not allow exactly {count} (nearest below: {len(picked)}): ask "
            "for another number"
        )
    return picked


def _fill(groups: Sequence[Sequence[Question]], room: int, picked: set[str]) -> None:
    for group in groups:
        if len(group) <= room:
            picked.update(question.id for question in group)
            room -= len(group)


def _quotas(
    strata: dict[tuple[str, bool, str], list[Sequence[Question]]], count: int, total: int, seed: int
) -> dict[tuple[str, bool, str], int]:
    """Share ``count`` out by size; what rounding leaves goes to the largest remainders."""
    exact = {s: count * sum(map(len, groups)) / total for s, groups in strata.items()}
    quotas = {stratum: math.floor(value) for stratum, value in exact.items()}
    left = count - sum(quotas.values())
    order = sorted(exact, key=lambda s: (quotas[s] - exact[s], _order(seed, str(s))))
    for stratum in order[:left]:
        quotas[stratum] += 1
    return quotas


def _stratum(question: Question) -> tuple[str, bool, str]:
    return question.category, question.answerable, question.language


def _order(seed: int, name: str) -> str:
    return hashlib.sha256(f"{seed}:{name}".encode()).hexdigest()


def write_split(
    folder: Path, *, dev: int = 200, smoke: int = 100, subset: int = 150, seed: int = 20260
) -> dict[str, int]:
    """Write the split into the question files of ``folder`` and the lists beside them.

    Args:
        folder: holds ``*.jsonl``; only the field ``split`` of a line changes.
        dev: development questions; the rest is for testing.
        smoke: questions of ``smoke.txt``, all of them in the subset too.
        subset: questions of ``subset-<number>.txt``, all of them test questions.
        seed: of the assignment.

    Returns:
        Number of questions by split and list.

    Raises:
        EvaluationError: there are too few questions, or lines are malformed.
    """
    files = {path: _rows(path) for path in sorted(folder.glob("*.jsonl"))}
    questions = [parse_question(row) for rows in files.values() for row in rows]
    marked = {
        row["id"]: row["group"] for rows in files.values() for row in rows if row.get("group")
    }
    groups = group_questions(questions, marked)
    development = pick(groups, dev, seed=seed)
    test = [group for group in groups if group[0].id not in development]
    slow = pick(test, subset, seed=seed + 1)
    quick = pick([g for g in test if g[0].id in slow], smoke, seed=seed + 2)
    chosen = [group for group in groups if group[0].id in development]
    golden = pick(chosen, min(GOLDEN, dev), seed=seed + 3)
    for path, rows in files.items():
        _write_rows(path, rows, lambda name: "dev" if name in development else "test")
    order = [question.id for question in questions]
    lists = {SMOKE_FILE: quick, f"subset-{subset}.txt": slow, GOLDEN_FILE: golden}
    for name, ids in lists.items():
        lines = "".join(f"{identity}\n" for identity in order if identity in ids)
        (folder / name).write_text(lines, encoding="utf-8")
    counts = Counter("dev" if name in development else "test" for name in order)
    return {**counts, **{name: len(ids) for name, ids in lists.items()}}


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        return [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError) as exc:
        raise EvaluationError(f"{path} cannot be read as JSON lines: {exc}") from exc


def _write_rows(path: Path, rows: list[dict[str, Any]], split_of: Callable[[str], str]) -> None:
    lines = [json.dumps({**r, "split": split_of(r["id"])}, ensure_ascii=False) for r in rows]
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    temporary.replace(path)
