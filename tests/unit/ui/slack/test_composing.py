from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from hpcllm.records import Check, Citation
from hpcllm.ui.slack.composing import (
    NOTIFY,
    compose,
    failure,
    opening,
    progress,
    reason_view,
    sources,
)
from hpcllm.ui.slack.incoming import Ask
from hpcllm.ui.slack.texts import ENGLISH, PORTUGUESE
from tests.unit.server.helpers import answer


def citation(number: int = 1, **changes: Any) -> Citation:
    values: dict[str, Any] = {
        "number": number,
        "passage_rank": number,
        "source": "docs",
        "path": "a.md",
        "title": "Page",
        "url": "https://d.example/a",
        "headings": ("Page", "Part"),
        "quote": "",
    }
    return Citation(**values | changes)


def texts_of(blocks: list[dict[str, Any]]) -> list[str]:
    return [block["elements"][0]["text"] for block in blocks if block["type"] == "context"]


def test_an_answer_tells_that_it_was_checked() -> None:
    [message] = compose(answer(), ENGLISH)
    assert message.about == {"state": "done", "receipt": "a" * 16, "parts": 1, "part": 0}
    assert texts_of(message.blocks)[-1] == (
        ":white_check_mark: Every statement and command was checked against its sources · 0.0 s"
    )


def test_a_failed_check_or_a_fallback_is_not_called_checked() -> None:
    [failed] = compose(answer(checks=(Check("cited", False),)), ENGLISH)
    assert texts_of(failed.blocks)[-1] == "0.0 s"
    [quoted] = compose(answer(fallback="the model is <busy>"), ENGLISH)
    assert texts_of(quoted.blocks)[-1].startswith(
        "Quoted from the documentation: the model is &lt;busy&gt;"
    )


def test_only_a_refusal_offers_to_notify_staff() -> None:
    for abstained, can_notify, expected in ((True, True, 3), (True, False, 2), (False, True, 2)):
        [message] = compose(answer(abstained=abstained), ENGLISH, can_notify=can_notify)
        buttons = message.blocks[-1]["elements"]
        assert len(buttons) == expected
        assert (buttons[-1]["action_id"] == NOTIFY) == (expected == 3)


def test_sources_warn_of_pages_that_are_out_of_date() -> None:
    [block] = sources([citation(notice="Out of date: <since 2020>")], "Sources")
    assert block["elements"][0]["text"] == (
        "*Sources*\n<https://d.example/a|[1] Page › Part> — "
        ":warning: Out of date: &lt;since 2020&gt;"
    )


def test_sources_from_tickets_say_so() -> None:
    [block] = sources([citation(notice="From a ticket, 2026-03-01")], "Sources")
    shown = block["elements"][0]["text"]
    assert shown.endswith(":admission_tickets: From a ticket, 2026-03-01")


def test_many_sources_go_on_in_further_blocks() -> None:
    blocks = list(sources([citation(n, title="T" * 100) for n in range(1, 31)], "Sources"))
    assert len(blocks) > 1
    assert all(len(block["elements"][0]["text"]) <= 1900 for block in blocks)
    assert sum(block["elements"][0]["text"].count("https://") for block in blocks) == 30


def test_a_source_without_an_address_is_named() -> None:
    [block] = sources([citation(url=None, headings=())], "Fontes")
    assert block["elements"][0]["text"] == "*Fontes*\n[1] Page"


def test_sections_look_for_no_names() -> None:
    [message] = compose(answer(text="ask @channel [1]"), ENGLISH)
    assert message.blocks[0]["text"] == {
        "type": "mrkdwn",
        "text": "ask @channel <https://d.example/s#quota|[1]>",
        "verbatim": True,
    }


def test_a_question_is_quoted_within_slacks_limits() -> None:
    asked = Ask("k", "command", "T", "C", "U1", "")
    message = opening(asked, "<&>" * 1000 + "\n" * 50, ENGLISH)
    assert len(message.text) <= 3000
    assert message.text.startswith("<@U1> asks:\n> &lt;&amp;&gt;")
    assert message.text.endswith("…")


def test_progress_shows_the_end_of_a_long_draft() -> None:
    message = progress("writing", "word " * 3000 + "the end")
    assert [block["type"] for block in message.blocks] == ["section", "section", "context"]
    assert message.blocks[1]["text"]["text"].endswith("the end")


def test_a_failure_is_escaped() -> None:
    assert failure("no <!channel>", ENGLISH).text.endswith("no &lt;!channel&gt;")


@pytest.mark.parametrize("texts", [ENGLISH, PORTUGUESE])
def test_the_form_keeps_slacks_limits(texts: Any) -> None:
    view = reason_view(json.dumps({"receipt": "r"}), texts)
    assert len(view["title"]["text"]) <= 24
    assert all(len(view[name]["text"]) <= 24 for name in ("submit", "close"))
    options = view["blocks"][0]["element"]["options"]
    assert [option["value"] for option in options] == [
        "wrong",
        "incomplete",
        "outdated",
        "wrong_cluster",
        "other",
    ]


def test_both_languages_fill_in_the_same_places() -> None:
    for field in dataclasses.fields(ENGLISH):
        english, portuguese = getattr(ENGLISH, field.name), getattr(PORTUGUESE, field.name)
        assert type(english) is type(portuguese)
        if isinstance(english, str):
            assert english.count("{") == portuguese.count("{"), field.name
