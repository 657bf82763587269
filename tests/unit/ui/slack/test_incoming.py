from __future__ import annotations

from typing import Any

import pytest

from hpcllm.ui.slack.incoming import (
    Ask,
    ask_of_command,
    ask_of_event,
    ask_of_shortcut,
    plain_text,
)


def body(**event: Any) -> dict[str, Any]:
    values = {"type": "message", "user": "U1", "text": "hi", "ts": "5.1", "channel": "C1"}
    return {"event_id": "Ev1", "team_id": "T1", "event": {**values, **event}}


def test_a_mention_is_for_the_bot() -> None:
    asked = ask_of_event(body(text="<@UBOT> hi", thread_ts="4.1"), "UBOT", "mentioned")
    assert asked == Ask(
        key="slack:Ev1",
        kind="message",
        team="T1",
        channel="C1",
        user="U1",
        text="<@UBOT> hi",
        ts="5.1",
        thread_ts="4.1",
    )
    assert (asked.thread, asked.message_key) == ("4.1", "slack-message:T1/C1/5.1")


@pytest.mark.parametrize(
    ("event", "when", "expected"),
    [
        ({}, "mentioned", False),
        ({}, "always", True),
        ({"text": "<@UBOT> hi"}, "never", False),
        ({"channel_type": "im", "channel": "D1"}, "mentioned", True),
        ({"text": "<@U2> can you?"}, "always", False),
        ({"text": "<@U2> and <@UBOT>"}, "always", True),
        ({"subtype": "thread_broadcast"}, "always", True),
        ({"subtype": "message_deleted"}, "always", False),
        ({"bot_id": "B1"}, "always", False),
        ({"bot_profile": {"id": "B1"}}, "always", False),
        ({"user": "UBOT"}, "always", False),
        ({"user": ""}, "always", False),
    ],
)
def test_what_is_for_the_bot(event: dict[str, Any], when: Any, expected: bool) -> None:
    assert (ask_of_event(body(**event), "UBOT", when) is not None) == expected


def test_a_question_survives_a_restart() -> None:
    asked = ask_of_command(
        {"trigger_id": "t", "channel_id": "D1", "user_id": "U1", "text": "q", "response_url": "u"}
    )
    assert Ask.from_payload({**asked.to_payload(), "later": 1}) == asked
    assert (asked.is_direct, asked.thread, asked.message_key) == (True, "", "")


def test_the_shortcut_asks_about_its_message() -> None:
    asked = ask_of_shortcut(
        {
            "trigger_id": "t",
            "channel": {"id": "C1"},
            "user": {"id": "U2"},
            "team": {"id": "T1"},
            "message": {"text": "help", "ts": "6.1", "thread_ts": "5.1"},
        }
    )
    assert (asked.kind, asked.text, asked.ts, asked.thread) == ("thread", "help", "6.1", "5.1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<@UBOT> hi", "hi"),
        ("ask <@U2|ada> or <@U3>", "ask @ada or @U3"),
        ("in <#C1|general> and <#C2>", "in #general and #C2"),
        ("<!here> <!subteam^S1|@gpu> <!subteam^S1>", "@here @gpu @subteam"),
        (
            "<https://x.example/a|docs> <https://x.example>",
            "docs (https://x.example/a) https://x.example",
        ),
        ("<https://x.example/a|x.example/a>", "https://x.example/a"),
        ("<mailto:a@b.example|a@b.example>", "a@b.example"),
        ("a &lt; b &amp;&amp; c &gt; d &amp;lt;", "a < b && c > d &lt;"),
    ],
)
def test_slacks_notation_is_read_as_the_person_saw_it(text: str, expected: str) -> None:
    assert plain_text(text, "UBOT") == expected
