from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from hpcllm.server.stored import Gap, StoredAnswer
from hpcllm.ui.gaps import group_gaps, page_stub

NOW = datetime(2026, 5, 20, tzinfo=UTC)
PAGE = {"rank": 1, "source": "docs", "path": "a.md", "title": "A", "url": None}


def gap(number: int, question: str, days_ago: float, pages: list[dict[str, Any]]) -> Gap:
    answer = StoredAnswer(
        *(f"{number:016x}", None, "web", None, question, question, "", True, "", "m", "g"),
        *({}, [], [], pages, {}, {}, NOW),
    )
    return Gap(number, "unanswered", "open", "", answer, (), NOW - timedelta(days=days_ago))


def unit(*angles: float) -> np.ndarray:
    return np.array([[np.cos(a), np.sin(a)] for a in np.radians(angles)], dtype=np.float32)


def test_similar_questions_make_a_group_with_its_trend() -> None:
    other = {**PAGE, "path": "b.md", "title": "B"}
    gaps = [
        gap(1, "parking", 1, [PAGE]),
        gap(2, "park a car", 2, [PAGE, other]),
        gap(3, "coffee", 3, []),
        gap(4, "car park", 9, [other]),
    ]
    park, coffee = group_gaps(gaps, unit(0, 10, 90, 20), now=NOW)
    assert park.title == "park a car"  # at 10 degrees, in the middle of 0, 10 and 20
    assert [g.id for g in park.gaps] == [1, 2, 4]
    assert (park.this_week, park.week_before, park.trend) == (2, 1, "rising")
    assert [page["path"] for page in park.pages] == ["a.md", "b.md"]
    assert (coffee.title, coffee.pages, coffee.trend) == ("coffee", (), "rising")


def test_questions_apart_stay_apart() -> None:
    gaps = [gap(n, f"q{n}", n, []) for n in range(3)]
    assert len(group_gaps(gaps, unit(0, 60, 120), now=NOW)) == 3
    assert len(group_gaps(gaps, unit(0, 50, 25), now=NOW)) == 1


@pytest.mark.parametrize(("days", "trend"), [((1, 8), "steady"), ((8, 9), "falling")])
def test_trends(days: tuple[float, float], trend: str) -> None:
    gaps = [gap(n, "q", day, []) for n, day in enumerate(days)]
    (group,) = group_gaps(gaps, unit(0, 0), now=NOW)
    assert group.trend == trend


def test_no_gaps_no_groups() -> None:
    assert group_gaps([], np.zeros((0, 2), dtype=np.float32), now=NOW) == []


def test_the_stub_names_each_question_and_page_once() -> None:
    gaps = [gap(1, "where to park?", 1, [PAGE]), gap(2, "where to park?", 2, [PAGE])]
    (group,) = group_gaps(gaps, unit(0, 0), now=NOW)
    stub = page_stub(group, title="On {question}", questions="Asked", related="See", todo="Write.")
    assert stub == (
        "# On where to park?\n\nWrite.\n\n## Asked\n\n"
        "- where to park?\n\n## See\n\n- A (docs/a.md)\n"
    )
