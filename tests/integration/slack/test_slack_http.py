"""The bot in HTTP mode: real Bolt, real requests on loopback, against the stand-in for Slack."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from hpcllm.errors import GenerationError
from hpcllm.models.backends.scripted import Fault
from hpcllm.server.store import Store
from hpcllm.ui.slack.composing import HELPFUL, NOT_HELPFUL, NOTIFY
from hpcllm.ui.slack.incoming import ask_of_event
from tests.integration.slack.fake_slack import (
    FakeSlack,
    Sender,
    command_body,
    event_body,
    press_body,
    shortcut_body,
)
from tests.integration.slack.running_bot import http_bot, wait_for
from tests.unit.server.helpers import QUESTION

pytestmark = pytest.mark.network

STAFF = {"defaults": {"staff_channel": "CSTAFF"}}


def is_done(message: dict[str, Any]) -> bool:
    return bool(message["metadata"]["event_payload"]["state"] == "done")


def answers_in(slack: FakeSlack, channel: str, thread: str) -> list[dict[str, Any]]:
    return [message for message in slack.own(channel, thread) if is_done(message)]


def ask(slack: FakeSlack, bot: Sender, text: str = f"<@U0BOT> {QUESTION}", **where: Any) -> str:
    """Mention the bot and wait for its answer; return the thread."""
    message = slack.says(text, **where)
    channel = where.get("channel", "C1")
    thread = message.get("thread_ts", message["ts"])
    before = len(answers_in(slack, channel, thread))
    assert bot.event(event_body(message, channel=channel)).status_code == 200
    wait_for(lambda: len(answers_in(slack, channel, thread)) > before)
    return str(thread)


def all_text(message: dict[str, Any]) -> str:
    return json.dumps(message["blocks"], ensure_ascii=False)


def test_a_mention_is_answered_in_its_thread_with_sources_and_buttons(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with http_bot(tmp_path, slack, store) as bot:
        thread = ask(slack, bot)
    [answer] = slack.own("C1", thread)
    first = answer["blocks"][0]
    assert first["text"]["text"] == (
        "The quota of the home folder is 50 GB <https://docs.example.org/storage.md#quota|[1]>."
    )
    assert first["text"]["verbatim"] is True
    assert (
        "*Sources*\n<https://docs.example.org/storage.md#quota|[1] Storage › Quota>"
        in (answer["blocks"][1]["elements"][0]["text"])
    )
    buttons = [element["action_id"] for element in answer["blocks"][-1]["elements"]]
    assert buttons == [HELPFUL, NOT_HELPFUL]
    [recorded] = store.answers()
    assert (recorded.question, recorded.channel) == (QUESTION, "slack")
    assert store.unfinished("slack") == []


def test_progress_is_shown_by_editing_the_one_message(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with http_bot(tmp_path, slack, store, delay_s=0.02) as bot:
        thread = ask(slack, bot)
    shown = [call.args["text"] for call in slack.calls if call.method.startswith("chat.")]
    assert shown[0].startswith(":mag: Searching")
    assert any(text.startswith(":pencil2: Writing") for text in shown)
    assert len(slack.called("chat.postMessage")) == 1
    assert {call["ts"] for call in slack.called("chat.update")} == {
        slack.own("C1", thread)[0]["ts"]
    }
    assert all(call["parse"] == "none" for call in slack.called("chat.update"))


def test_edits_that_show_progress_keep_their_distance(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with http_bot(tmp_path, slack, store, delay_s=0.03, edit_gap_s=60.0) as bot:
        ask(slack, bot)
    assert len(slack.called("chat.update")) == 1  # the answer itself


def test_the_acknowledgement_does_not_wait_for_the_answer(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with http_bot(tmp_path, slack, store, delay_s=0.3) as bot:
        message = slack.says(f"<@U0BOT> {QUESTION}")
        bot.event(event_body(message))
        bot.form(command_body(QUESTION, slack))
        bot.payload(shortcut_body(message, slack))
        assert not any(map(is_done, slack.own("C1")))
        assert max(bot.seconds) < 3.0


def test_retries_and_duplicates_are_answered_once(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with http_bot(tmp_path, slack, store) as bot:
        message = slack.says(f"<@U0BOT> {QUESTION}")
        body = event_body(message, event_id="Ev1")
        codes = [bot.event(body, retry=number).status_code for number in range(4)]
        wait_for(lambda: answers_in(slack, "C1", message["ts"]))
        codes.append(bot.event(body, retry=4).status_code)
        ask(slack, bot, "<@U0BOT> another one?")
    assert codes == [200] * 5
    assert len(slack.own("C1", message["ts"])) == 1
    assert len(store.answers()) == 2


def test_a_duplicate_is_recognised_by_the_next_bot(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    message = slack.says(f"<@U0BOT> {QUESTION}")
    body = event_body(message)
    with http_bot(tmp_path, slack, store) as bot:
        bot.event(body)
        wait_for(lambda: answers_in(slack, "C1", message["ts"]))
    with http_bot(tmp_path, slack, store) as bot:
        assert bot.event(body, retry=1).status_code == 200
        ask(slack, bot, "<@U0BOT> another one?")
    assert len(slack.own("C1", message["ts"])) == 1


def test_a_mention_where_everything_is_read_comes_twice_and_is_answered_once(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    settings = {"channels": {"C1": {"answer": "always"}}}
    with http_bot(tmp_path, slack, store, settings=settings) as bot:
        message = slack.says(f"<@U0BOT> {QUESTION}")
        bot.event(event_body(message, kind="message"))
        bot.event(event_body(message, kind="app_mention"))
        wait_for(lambda: answers_in(slack, "C1", message["ts"]))
        wait_for(lambda: not store.unfinished("slack"))
    assert len(slack.own("C1", message["ts"])) == 1


def test_what_is_answered_is_decided_for_each_channel(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    settings = {"channels": {"C2": {"answer": "always"}}}
    with http_bot(tmp_path, slack, store, settings=settings) as bot:
        unasked = slack.says(QUESTION, channel="C1")
        bot.event(event_body(unasked, channel="C1", kind="message"))
        to_other = slack.says("<@U7> can you help?", channel="C2")
        bot.event(event_body(to_other, channel="C2", kind="message"))
        always = slack.says(QUESTION, channel="C2")
        bot.event(event_body(always, channel="C2", kind="message"))
        wait_for(lambda: answers_in(slack, "C2", always["ts"]))
        direct = slack.says(QUESTION, channel="D1")
        bot.event(event_body(direct, channel="D1"))
        wait_for(lambda: answers_in(slack, "D1", direct["ts"]))
    assert slack.own("C1") == []
    assert slack.own("C2", to_other["ts"]) == []


@pytest.mark.parametrize(
    "extra",
    [
        {"bot_id": "B9"},
        {"subtype": "bot_message", "bot_id": "B9"},
        {"user": "U0BOT"},
        {"subtype": "message_changed"},
        {"subtype": "channel_join"},
    ],
    ids=lambda extra: "-".join(extra),
)
def test_bots_edits_and_the_bot_itself_are_ignored(
    tmp_path: Path, slack: FakeSlack, store: Store, extra: dict[str, Any]
) -> None:
    settings = {"channels": {"C1": {"answer": "always"}}}
    with http_bot(tmp_path, slack, store, settings=settings) as bot:
        message = {"user": "U9", "text": f"<@U0BOT> {QUESTION}", "ts": slack.new_ts(), **extra}
        assert bot.event(event_body(message, kind="message")).status_code == 200
        thread = ask(slack, bot)
    assert slack.own("C1") == slack.own("C1", thread)


@pytest.mark.parametrize("signing", [{"secret": "wrong"}, {"age_s": 600}], ids=["signature", "age"])
def test_a_request_that_slack_did_not_sign_is_refused(
    tmp_path: Path, slack: FakeSlack, store: Store, signing: dict[str, Any]
) -> None:
    with http_bot(tmp_path, slack, store) as bot:
        message = slack.says(f"<@U0BOT> {QUESTION}")
        assert bot.event(event_body(message), **signing).status_code == 401
    assert store.unfinished("slack") == []
    assert slack.own("C1") == []


def test_the_address_is_verified_when_slack_asks(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with http_bot(tmp_path, slack, store) as bot:
        answered = bot.event({"type": "url_verification", "challenge": "abc", "token": "x"})
    assert (answered.status_code, answered.text) == (200, '{"challenge": "abc"}')


def test_the_thread_is_the_history_whoever_wrote_in_it(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    slack.page_size = 1  # read page by page
    prompts: list[str] = []

    def answer(messages: Any) -> str:
        prompts.append("\n".join(message.content for message in messages))
        return "It is 50 GB [1]."

    with http_bot(tmp_path, slack, store, answers=[answer]) as bot:
        root = slack.says("My home folder on the cluster is full &amp; I cannot write", user="U5")
        slack.says("posted by another bot", thread=root["ts"], user="U8", bot_id="B8")
        thread = ask(slack, bot, "<@U0BOT> what is the quota of it?", thread=root["ts"])
        ask(slack, bot, "<@U0BOT> and is that for each user?", thread=root["ts"])
    assert thread == root["ts"]
    assert "home folder on the cluster is full & I cannot write" in prompts[0]
    assert "another bot" not in prompts[0]
    assert "It is 50 GB [1]." in prompts[1]
    assert len(slack.own("C1", thread)) == 2


def test_events_out_of_order_have_what_stood_above_them_as_history(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    prompts: list[str] = []

    def answer(messages: Any) -> str:
        prompts.append("\n".join(message.content for message in messages))
        return "It is 50 GB [1]."

    with http_bot(tmp_path, slack, store, answers=[answer]) as bot:
        first = slack.says("<@U0BOT> what about the quota of zebra folders?")
        second = slack.says("<@U0BOT> and of the walrus home folder?", thread=first["ts"])
        bot.event(event_body(second))
        bot.event(event_body(first))
        wait_for(lambda: len(answers_in(slack, "C1", first["ts"])) == 2)
    of_first = next(p for p in prompts if "walrus" not in p)
    of_second = next(p for p in prompts if "walrus" in p)
    assert "zebra" in of_first
    assert "zebra" in of_second


def test_a_slash_command_shows_its_question_and_is_answered_below(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with http_bot(tmp_path, slack, store) as bot:
        acknowledged = bot.form(command_body(f"{QUESTION} &lt;!channel&gt;", slack))
        root = wait_for(lambda: slack.own("C1"))[0]
        wait_for(lambda: answers_in(slack, "C1", root["ts"]))
    assert (acknowledged.status_code, acknowledged.text) == (200, "")
    assert root["text"] == f"<@U1> asks:\n> {QUESTION} &lt;!channel&gt;"


def test_an_empty_slash_command_is_answered_with_help(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with http_bot(tmp_path, slack, store) as bot:
        told = bot.form(command_body(" ", slack)).text
    assert "`/hpc how do I request a GPU?`" in told
    assert slack.own("C1") == []


def test_a_command_where_the_bot_is_not_is_answered_for_its_user_alone(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with http_bot(tmp_path, slack, store) as bot:
        bot.form(command_body(QUESTION, slack, channel="C9"))
        [told] = wait_for(lambda: slack.responses)
    assert told["response_type"] == "ephemeral"
    assert "50 GB" in all_text(told)
    assert "Invite me with `/invite`" in all_text(told)


def test_the_shortcut_answers_a_thread_with_what_its_author_added(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with http_bot(tmp_path, slack, store) as bot:
        root = slack.says("I cannot write any more", user="U5")
        slack.says("what is the quota of the home folder?", user="U5", thread=root["ts"])
        slack.says("no idea", user="U6", thread=root["ts"])
        assert bot.payload(shortcut_body(root, slack)).status_code == 200
        wait_for(lambda: answers_in(slack, "C1", root["ts"]))
    [recorded] = store.answers()
    assert recorded.question == "I cannot write any more\nwhat is the quota of the home folder?"


def test_votes_land_in_the_store_and_a_vote_down_asks_why(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with http_bot(tmp_path, slack, store) as bot:
        thread = ask(slack, bot)
        [answer] = slack.own("C1", thread)
        [recorded] = store.answers()
        assert bot.payload(press_body(HELPFUL, answer)).status_code == 200
        wait_for(lambda: slack.called("chat.postEphemeral"))
        [vote] = store.feedback(recorded.receipt_id)
        assert (vote.rating, vote.author) == ("up", "T1/U1")
        bot.payload(press_body(NOT_HELPFUL, answer))
        [opened] = wait_for(lambda: slack.called("views.open"))
        assert [gap.kind for gap in store.gaps()] == ["voted_down"]
        bot.payload(
            {
                "type": "view_submission",
                "team": {"id": "T1"},
                "user": {"id": "U1"},
                "view": {
                    **opened["view"],
                    "id": "V1",
                    "state": {
                        "values": {
                            "reason": {"value": {"selected_option": {"value": "outdated"}}},
                            "comment": {"value": {"value": "write to me: ada@example.org"}},
                        }
                    },
                },
            }
        )
        wait_for(lambda: store.feedback(recorded.receipt_id)[0].reason)
        [vote] = store.feedback(recorded.receipt_id)
    assert (vote.rating, vote.reason) == ("down", "outdated")
    assert "ada@example.org" not in vote.comment


def test_a_vote_on_an_answer_that_is_gone_is_told(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with http_bot(tmp_path, slack, store) as bot:
        thread = ask(slack, bot)
        store.forget(days=-1)
        bot.payload(press_body(HELPFUL, slack.own("C1", thread)[0]))
        [told] = wait_for(lambda: slack.called("chat.postEphemeral"))
    assert told["text"] == "That answer is no longer on record."


def test_staff_are_told_once_of_what_is_not_documented(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with http_bot(tmp_path, slack, store, settings=STAFF, minimum_evidence=1.0) as bot:
        thread = ask(slack, bot, "<@U0BOT> where do zebras graze? I am ada@example.org")
        [note] = wait_for(lambda: slack.own("CSTAFF"))
    assert "ada@example.org" not in all_text(note)
    assert "<@U1>, <#C1>\n> where do zebras graze?" in note["text"]
    assert f"https://x.slack.com/C1/{thread}" in all_text(note)
    assert "Nearest pages" in all_text(note)
    assert len(slack.own("CSTAFF")) == 1


def test_in_a_direct_message_staff_are_told_when_the_button_is_pressed(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with http_bot(tmp_path, slack, store, settings=STAFF, minimum_evidence=1.0) as bot:
        thread = ask(slack, bot, "where do zebras graze?", channel="D1")
        [answer] = slack.own("D1", thread)
        assert slack.own("CSTAFF") == []
        for _ in range(2):
            bot.payload(press_body(NOTIFY, answer, channel="D1"))
        wait_for(lambda: len(slack.called("chat.postEphemeral")) == 2)
    [note] = slack.own("CSTAFF")
    assert "<@U1> in a direct message" in note["text"]
    assert "x.slack.com" not in all_text(note)


def test_the_language_of_a_channel_is_that_of_the_bots_sentences(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    settings = {"channels": {"C1": {"language": "pt"}}}
    with http_bot(tmp_path, slack, store, settings=settings) as bot:
        thread = ask(slack, bot)
    assert "*Fontes*" in all_text(slack.own("C1", thread)[0])


def test_the_cluster_of_a_channel_is_that_of_its_answers(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    settings = {"channels": {"C1": {"cluster": "meridian"}}}
    with http_bot(tmp_path, slack, store, settings=settings) as bot:
        ask(slack, bot)
    assert store.answers()[0].cluster == "meridian"


def test_rate_limits_are_waited_for(tmp_path: Path, slack: FakeSlack, store: Store) -> None:
    slack.fail["chat.update"] = ["429:1"]
    with http_bot(tmp_path, slack, store, edit_gap_s=60.0) as bot:
        thread = ask(slack, bot)
    first, second = (call for call in slack.calls if call.method == "chat.update")
    assert second.at - first.at >= 1.0
    assert len(slack.own("C1", thread)) == 1


def test_progress_is_left_out_while_slack_wants_a_pause(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    slack.fail["chat.update"] = ["429:1"]
    with http_bot(tmp_path, slack, store, delay_s=0.02) as bot:
        ask(slack, bot)
    first, second = (call for call in slack.calls if call.method == "chat.update")
    assert second.at - first.at >= 1.0


@pytest.mark.parametrize("trouble", ["500", "text", "cut", "internal_error"])
def test_trouble_of_slack_that_passes_is_waited_for(
    tmp_path: Path, slack: FakeSlack, store: Store, trouble: str
) -> None:
    slack.fail["chat.postMessage"] = [trouble]
    with http_bot(tmp_path, slack, store) as bot:
        thread = ask(slack, bot)
    assert len(slack.own("C1", thread)) == 1


def test_an_answer_whose_place_was_deleted_is_posted_anew(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    slack.fail["chat.update"] = ["message_not_found"]
    with http_bot(tmp_path, slack, store, edit_gap_s=60.0) as bot:
        thread = ask(slack, bot)
    assert len(answers_in(slack, "C1", thread)) == 1


def test_a_channel_that_refuses_is_given_up(tmp_path: Path, slack: FakeSlack, store: Store) -> None:
    slack.fail["chat.postMessage"] = ["is_archived"]
    with http_bot(tmp_path, slack, store) as bot:
        lost = slack.says(f"<@U0BOT> {QUESTION}")
        bot.event(event_body(lost))
        wait_for(lambda: slack.called("chat.postMessage"))
        ask(slack, bot)
        wait_for(lambda: not store.unfinished("slack"))
    assert slack.own("C1", lost["ts"]) == []


def test_a_long_answer_goes_on_in_further_messages(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    long = "\n\n".join(["The quota of the home folder is 50 GB [1]."] * 250)
    options = {"answers": [long], "answer_tokens": 10_000, "edit_gap_s": 60.0}
    with http_bot(tmp_path, slack, store, **options) as bot:
        thread = ask(slack, bot)
        wait_for(lambda: not store.unfinished("slack"))
    first, second, third = slack.own("C1", thread)
    for part in (first, second, third):
        texts = [b["text"]["text"] for b in part["blocks"] if b["type"] == "section"]
        assert all(text.startswith("The quota") and text.endswith("[1]>.") for text in texts)
    assert [b["type"] for b in first["blocks"]] == ["section"] * 3
    assert third["blocks"][-1]["type"] == "actions"
    numbers = [m["metadata"]["event_payload"]["part"] for m in (first, second, third)]
    assert numbers == [0, 1, 2]


def test_a_question_waits_for_its_place_in_the_queue(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with http_bot(tmp_path, slack, store, delay_s=0.05, waiting=0) as bot:
        messages = [slack.says(f"<@U0BOT> {QUESTION}") for _ in range(3)]
        for message in messages:
            bot.event(event_body(message))
        for message in messages:
            wait_for(lambda m=message: answers_in(slack, "C1", m["ts"]), 30)
    assert any("Others are being answered" in c["text"] for c in slack.called("chat.update"))


def test_an_empty_mention_is_told_so(tmp_path: Path, slack: FakeSlack, store: Store) -> None:
    with http_bot(tmp_path, slack, store) as bot:
        thread = ask(slack, bot, "<@U0BOT>  ")
    assert "There is no question in that message." in slack.own("C1", thread)[0]["text"]


def test_a_question_that_is_too_long_is_told_so(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with http_bot(tmp_path, slack, store) as bot:
        thread = ask(slack, bot, "<@U0BOT> " + "x" * 20_001)
    assert "20001 characters, at most 20000" in slack.own("C1", thread)[0]["text"]


def test_a_model_that_fails_is_replaced_and_the_reason_told(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with http_bot(tmp_path, slack, store, answers=[Fault(GenerationError("no <b> memory"))]) as bot:
        thread = ask(slack, bot)
    told = all_text(slack.own("C1", thread)[0])
    assert "Quoted from the documentation: the model failed: no &lt;b&gt; memory" in told


def test_a_database_that_is_locked_makes_slack_send_again(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    message = slack.says(f"<@U0BOT> {QUESTION}")
    with http_bot(tmp_path, slack, store) as bot:
        with sqlite3.connect(tmp_path / "hpcllm.db", isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            assert bot.event(event_body(message)).status_code == 503
            other.execute("ROLLBACK")
        other.close()
        assert bot.event(event_body(message), retry=1).status_code == 200
        wait_for(lambda: answers_in(slack, "C1", message["ts"]))
        assert max(bot.seconds) < 3.0
    assert len(slack.own("C1", message["ts"])) == 1


def test_a_question_that_slack_could_not_be_told_of_is_left_for_the_next_bot(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    message = slack.says(f"<@U0BOT> {QUESTION}")
    slack.fail["chat.postMessage"] = ["500"]
    with http_bot(tmp_path, slack, store, patience_s=0.5) as bot:
        bot.event(event_body(message))
        wait_for(lambda: slack.called("chat.postMessage"))
        ask(slack, bot)
    assert slack.own("C1", message["ts"]) == []
    with http_bot(tmp_path, slack, store):
        wait_for(lambda: answers_in(slack, "C1", message["ts"]))
    assert store.unfinished("slack") == []


def test_a_question_that_was_left_for_more_than_a_day_is_dropped(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    message = slack.says(f"<@U0BOT> {QUESTION}")
    asked = ask_of_event(event_body(message), "U0BOT", "mentioned")
    assert asked is not None
    store.claim(asked.key, asked.to_payload())
    with sqlite3.connect(tmp_path / "hpcllm.db") as other:
        other.execute("UPDATE deliveries SET created = '2020-01-01 00:00:00.000000'")
    other.close()
    with http_bot(tmp_path, slack, store) as bot:
        ask(slack, bot)
    assert slack.own("C1", message["ts"]) == []
    assert store.unfinished("slack") == []


def test_handled_events_are_forgotten_after_a_week(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    for key in ("slack:EvOld", "slack:EvNew"):
        store.claim(key, {})
        store.finish(key)
    with sqlite3.connect(tmp_path / "hpcllm.db") as other:
        other.execute(
            "UPDATE deliveries SET created = datetime('now', '-8 days') WHERE key LIKE '%Old'"
        )
        other.execute(
            "UPDATE deliveries SET created = datetime('now', '-6 days') WHERE key LIKE '%New'"
        )
    other.close()

    def kept() -> list[str]:
        with store.engine.connect() as connection:
            return [row[0] for row in connection.execute(text("SELECT key FROM deliveries"))]

    with http_bot(tmp_path, slack, store):
        wait_for(lambda: len(kept()) == 1)
    assert kept() == ["slack:EvNew"]


def test_messages_in_one_channel_keep_their_distance(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with http_bot(tmp_path, slack, store, post_gap_s=0.4) as bot:
        messages = [slack.says(f"<@U0BOT> {QUESTION}") for _ in range(3)]
        for message in messages:
            bot.event(event_body(message))
        for message in messages:
            wait_for(lambda m=message: answers_in(slack, "C1", m["ts"]))
    moments = [call.at for call in slack.calls if call.method == "chat.postMessage"]
    assert moments[1] - moments[0] >= 0.39
    assert moments[2] - moments[1] >= 0.39


def test_a_thread_that_may_not_be_read_is_no_history(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    slack.fail["conversations.replies"] = ["missing_scope"]
    with http_bot(tmp_path, slack, store) as bot:
        root = slack.says("what about the quota?")
        ask(slack, bot, thread=root["ts"])
    assert store.answers()[0].standalone_question == QUESTION
