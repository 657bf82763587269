"""The bot in Socket Mode against the stand-in for Slack."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hpcllm.errors import ConfigError
from hpcllm.models.backends.openai_api import Secret
from hpcllm.server.store import Store
from hpcllm.ui.slack.composing import HELPFUL
from hpcllm.ui.slack.running import connected
from hpcllm.ui.slack.settings import Tokens
from tests.integration.slack.fake_slack import (
    BOT_TOKEN,
    FakeSlack,
    command_body,
    event_body,
    press_body,
)
from tests.integration.slack.running_bot import make_bot, socket_bot, wait_for
from tests.unit.server.helpers import QUESTION

pytestmark = pytest.mark.network


def is_acknowledged(slack: FakeSlack, envelope: str) -> bool:
    return envelope in [ack["envelope_id"] for ack in slack.acks]


def done_in(slack: FakeSlack, thread: str) -> bool:
    states = [m["metadata"]["event_payload"]["state"] for m in slack.own("C1", thread)]
    return "done" in states


def test_an_event_is_acknowledged_before_it_is_answered(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with socket_bot(tmp_path, slack, store, delay_s=0.1):
        message = slack.says(f"<@U0BOT> {QUESTION}")
        envelope = slack.push(event_body(message))
        wait_for(lambda: is_acknowledged(slack, envelope), 3.0)
        assert not done_in(slack, message["ts"])
        wait_for(lambda: done_in(slack, message["ts"]))


def test_an_envelope_that_is_sent_again_is_answered_once(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with socket_bot(tmp_path, slack, store):
        message = slack.says(f"<@U0BOT> {QUESTION}")
        body = event_body(message)
        envelopes = [slack.push(body, retry_attempt=number) for number in range(3)]
        wait_for(lambda: all(is_acknowledged(slack, envelope) for envelope in envelopes))
        wait_for(lambda: done_in(slack, message["ts"]))
        wait_for(lambda: not store.unfinished("slack"))
    assert len(slack.own("C1", message["ts"])) == 1


def test_commands_and_buttons_come_by_the_socket_too(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with socket_bot(tmp_path, slack, store):
        help_wanted = slack.push(command_body("help", slack), "slash_commands")
        wait_for(lambda: is_acknowledged(slack, help_wanted))
        slack.push(command_body(QUESTION, slack, trigger="t9"), "slash_commands")
        root = wait_for(lambda: slack.own("C1"))[0]
        wait_for(lambda: done_in(slack, root["ts"]))
        [answer] = slack.own("C1", root["ts"])
        slack.push(press_body(HELPFUL, answer), "interactive")
        [recorded] = store.answers()
        wait_for(lambda: store.feedback(recorded.receipt_id))
    told = next(ack for ack in slack.acks if ack["envelope_id"] == help_wanted)
    assert "/hpc how do I request" in told["payload"]["text"]


def test_the_bot_comes_again_when_slack_renews_the_connection(
    tmp_path: Path, slack: FakeSlack, store: Store
) -> None:
    with socket_bot(tmp_path, slack, store):
        slack.disconnect()
        wait_for(lambda: len(slack.sockets) == 2)
        message = slack.says(f"<@U0BOT> {QUESTION}")
        slack.push(event_body(message))
        wait_for(lambda: done_in(slack, message["ts"]))


@pytest.mark.parametrize(
    ("bot_token", "app_token", "named"),
    [("xoxb-wrong", "xapp-fake", "SLACK_BOT_TOKEN"), (BOT_TOKEN, "xapp-wrong", "SLACK_APP_TOKEN")],
)
def test_a_refused_token_is_named_with_the_remedy(
    tmp_path: Path, slack: FakeSlack, store: Store, bot_token: str, app_token: str, named: str
) -> None:
    async def main() -> None:
        bot = make_bot(tmp_path, slack, store)
        bot.outbox.client.token = bot_token
        try:
            await bot.identify()
            async with connected(bot, Tokens(Secret(bot_token), app=Secret(app_token))):
                raise AssertionError("it connected")
        finally:
            await bot.close()

    with pytest.raises(ConfigError, match=rf"refused {named} \(invalid_auth\): .* page") as caught:
        asyncio.run(main())
    assert "wrong" not in str(caught.value)
