from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hpcllm.records import Turn
from hpcllm.server.store import Store
from hpcllm.ui.slack.incoming import Ask
from hpcllm.ui.slack.thread import (
    HISTORY_TURNS,
    Line,
    history_of,
    is_complete,
    moment,
    own_parts,
    question_of,
)
from tests.unit.server.helpers import RIGHT, answer


def line(ts: str, text: str = "", *, user: str = "U1", **about: Any) -> Line:
    return Line(ts, user, text, about, is_own=user == "UBOT", is_person=user.startswith("U1"))


def own(ts: str, state: str, part: int = 0, parts: int = 1, **about: Any) -> Line:
    return line(ts, "shown", user="UBOT", key="k", state=state, part=part, parts=parts, **about)


def asked(ts: str = "9.1", **changes: Any) -> Ask:
    values: dict[str, Any] = {"text": "and?", "ts": ts, "thread_ts": "1.1", "kind": "message"}
    return Ask("k", **{"team": "T", "channel": "C", "user": "U1", **values, **changes})


def test_moments_are_compared_as_numbers() -> None:
    assert moment("1700000000.000002") < moment("1700000000.000010") < moment("1700000001.000000")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], False),
        ([own("2.1", "working")], False),
        ([own("2.1", "done")], True),
        ([own("2.1", "done", 0, 2)], False),
        ([own("2.1", "done", 0, 2), own("3.1", "done", 1, 2)], True),
    ],
)
def test_an_answer_is_complete_when_all_its_parts_stand_there(
    lines: list[Line], expected: bool
) -> None:
    assert is_complete(lines, "k") is expected


def test_parts_of_other_questions_are_not_taken_for_ones_own() -> None:
    lines = [own("2.1", "working"), line("3.1", user="UBOT", key="other", state="done", part=1)]
    assert own_parts(lines, "k") == {0: "2.1"}


def test_history_is_what_stands_above(tmp_path: Any) -> None:
    with Store.open(tmp_path / "a.db") as store:
        store.record_answer(answer("b" * 16), channel="slack")
        lines = [
            line("1.1", "what of <@UBOT> the &lt;quota&gt;"),
            line("2.1", "beep", user="B1"),
            own("3.1", "done", receipt="b" * 16),
            own("4.1", "done", 1),
            own("5.1", "working"),
            own("6.1", "done", receipt="gone"),
            line("9.1", "and?"),
            line("9.5", "later"),
        ]
        history = asyncio.run(history_of(asked(), lines, store, "UBOT"))
        many = [line(f"{n}.1", str(n)) for n in range(1, 40)]
        latest = asyncio.run(history_of(asked("50.1"), many, store, "UBOT"))
    assert history == [
        Turn("user", "what of  the <quota>"),
        Turn("assistant", RIGHT),
        Turn("assistant", "shown"),
    ]
    assert [turn.text for turn in latest] == [str(n) for n in range(40 - HISTORY_TURNS, 40)]


def test_a_commands_question_is_part_of_the_history(tmp_path: Any) -> None:
    root = line("1.1", "<@U1> asks:\n&gt; how &amp; why\n&gt; now", user="UBOT", state="asked")
    with Store.open(tmp_path / "a.db") as store:
        history = asyncio.run(history_of(asked(), [root], store, "UBOT"))
    assert history == [Turn("user", "how & why\nnow")]


def test_the_shortcut_on_a_reply_asks_that_reply_alone() -> None:
    lines = [line("1.1", "root"), line("2.1", "reply"), line("3.1", "more")]
    reply = asked("2.1", kind="thread", text="reply")
    assert question_of(reply, lines, "UBOT") == "reply"
    root = asked("1.1", kind="thread", text="root")
    assert question_of(root, lines, "UBOT") == "root\nreply\nmore"
