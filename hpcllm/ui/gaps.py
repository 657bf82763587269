"""What the documentation lacks: open questions grouped by what they are about.

Role: pure computing for the staff page, from gaps of the store and vectors of an embedder.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from hpcllm.server.stored import Gap, StoredAnswer

SAME_SUBJECT = 0.6
"""Least cosine of a question and the mean of a group it joins. Higher makes smaller groups."""
NEAREST_PAGES = 5
WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Group:
    """Open questions about one subject.

    Attributes:
        title: the question that is nearest to all of them.
        gaps: latest first.
        this_week: how many came in the last seven days.
        week_before: how many in the seven days before.
        pages: nearest pages with how many questions they are near to, most often first: source,
            path, title and url each.
    """

    title: str
    gaps: tuple[Gap, ...]
    this_week: int
    week_before: int
    pages: tuple[dict[str, Any], ...]

    @property
    def trend(self) -> str:
        """``rising``, ``falling`` or ``steady``."""
        if self.this_week == self.week_before:
            return "steady"
        return "rising" if self.this_week > self.week_before else "falling"


def question_of(answer: StoredAnswer) -> str:
    """Return the question as it was searched for, on one line."""
    return " ".join((answer.standalone_question or answer.question).split())


def group_gaps(gaps: Sequence[Gap], vectors: NDArray[np.float32], *, now: datetime) -> list[Group]:
    """Group questions that are about the same.

    Args:
        gaps: the open questions.
        vectors: ``(len(gaps), dimension)`` float32 unit rows of their questions, in that order.
        now: end of this week, aware.

    Returns:
        Groups, largest first, then the one with the latest question. The oldest question begins
        the first group, so that groups stay what they are while questions are added.
    """
    members: list[list[int]] = []
    sums: list[NDArray[np.float32]] = []
    for index in sorted(range(len(gaps)), key=lambda i: (gaps[i].created, gaps[i].id)):
        best = _nearest(vectors[index], sums)
        if best is None:
            members.append([index])
            sums.append(vectors[index].copy())
        else:
            members[best].append(index)
            sums[best] += vectors[index]
    groups = [
        _group(gaps, vectors, indices, total, now)
        for indices, total in zip(members, sums, strict=True)
    ]
    return sorted(groups, key=lambda g: (-len(g.gaps), -g.gaps[0].created.timestamp()))


def _nearest(vector: NDArray[np.float32], sums: list[NDArray[np.float32]]) -> int | None:
    if not sums:
        return None
    matrix = np.stack(sums)  # (groups, dimension)
    lengths = np.maximum(np.linalg.norm(matrix, axis=1), 1e-9)
    cosines = matrix @ vector / lengths  # (groups,)
    best = int(cosines.argmax())
    return best if cosines[best] >= SAME_SUBJECT else None


def _group(
    gaps: Sequence[Gap],
    vectors: NDArray[np.float32],
    indices: list[int],
    total: NDArray[np.float32],
    now: datetime,
) -> Group:
    middle = max(indices, key=lambda i: (float(vectors[i] @ total), -i))
    latest = sorted((gaps[i] for i in indices), key=lambda g: (g.created, g.id), reverse=True)
    return Group(
        title=question_of(gaps[middle].answer),
        gaps=tuple(latest),
        this_week=sum(now - WEEK <= gap.created for gap in latest),
        week_before=sum(now - 2 * WEEK <= gap.created < now - WEEK for gap in latest),
        pages=_pages(latest),
    )


def _pages(gaps: Sequence[Gap]) -> tuple[dict[str, Any], ...]:
    counts: Counter[tuple[str, str]] = Counter()
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for gap in gaps:
        near = {(p["source"], p["path"]): p for p in reversed(gap.answer.passages[:NEAREST_PAGES])}
        counts.update(near.keys())
        known |= near
    found = sorted(counts, key=lambda key: (-counts[key], known[key]["rank"], key))
    return tuple(known[key] for key in found[:NEAREST_PAGES])


def page_stub(group: Group, *, title: str, questions: str, related: str, todo: str) -> str:
    """Return the beginning of a page that answers a group's questions, in Markdown.

    Args:
        group: the questions.
        title: of the page, with ``{question}``.
        questions: heading of their list.
        related: heading of the list of pages.
        todo: what is to be written.
    """
    asked = dict.fromkeys(f"- {question_of(gap.answer)}" for gap in group.gaps)
    pages = [f"- {page['title']} ({page['source']}/{page['path']})" for page in group.pages]
    heading = title.format(question=group.title[:100])
    parts = [f"# {heading}", todo, f"## {questions}", "\n".join(asked)]
    if pages:
        parts += [f"## {related}", "\n".join(pages)]
    return "\n\n".join(parts) + "\n"
