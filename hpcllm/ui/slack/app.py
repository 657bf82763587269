"""Slack's requests, acknowledged: Bolt listeners that hand over to the bot.

Role: every request is answered within Slack's three seconds, because nothing here waits for an
answer to be written: a question is put down in the store (milliseconds) and worked on afterwards.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from slack_bolt.app.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.response import BoltResponse

from hpcllm.ui.slack.composing import HELPFUL, NOT_HELPFUL, NOTIFY
from hpcllm.ui.slack.feedback import Buttons
from hpcllm.ui.slack.incoming import ask_of_command, ask_of_event, ask_of_shortcut
from hpcllm.ui.slack.texts import texts_in

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hpcllm.ui.slack.bot import Bot
    from hpcllm.ui.slack.settings import Tokens

    Ack = Callable[..., Awaitable[Any]]

logger = logging.getLogger(__name__)

SHORTCUT = "answer_thread"
"""Callback id of the message shortcut, as in the app's manifest."""
REASON_VIEW = "hpcllm_reason"


def build_app(bot: Bot, tokens: Tokens) -> AsyncApp:
    """Return the Bolt application of a bot that knows who it is.

    Args:
        bot: answers.
        tokens: the signing secret is checked in HTTP mode.
    """
    secret = tokens.signing_secret.reveal() if tokens.signing_secret else ""
    app = AsyncApp(
        logger=logging.getLogger("hpcllm.ui.slack.bolt"),
        signing_secret=secret,
        client=bot.outbox.client,
        authorize=_authorizer(bot, tokens),
    )
    _listen_to_events(app, bot)
    _listen_to_requests(app, bot)
    _listen_to_buttons(app, Buttons(bot))
    return app


def _authorizer(bot: Bot, tokens: Tokens) -> Callable[..., Awaitable[AuthorizeResult]]:
    """Return a function that answers from what is known: no call to Slack before we acknowledge."""

    async def authorize(
        enterprise_id: str | None, team_id: str | None, user_id: str | None
    ) -> AuthorizeResult:
        me = bot.identity
        return AuthorizeResult(
            enterprise_id=enterprise_id,
            team_id=team_id or me.team,
            bot_token=tokens.bot.reveal(),
            bot_id=me.bot,
            bot_user_id=me.user,
        )

    return authorize


def _listen_to_events(app: AsyncApp, bot: Bot) -> None:
    async def accept(body: dict[str, Any]) -> BoltResponse:
        event = body.get("event") or {}
        is_direct = event.get("channel_type") == "im"
        rules = bot.settings.of(str(event.get("channel") or ""), is_direct=is_direct)
        ask = ask_of_event(body, bot.identity.user, rules.answer)
        taken = ask is None or await bot.take(ask)
        # Anything but 200 makes Slack send the event again.
        return BoltResponse(status=200 if taken else 503, body="")

    async def nothing() -> None:
        """Do nothing: the work is begun by the middleware, which decides the acknowledgement."""

    for kind in ("app_mention", "message"):
        app.event(kind, middleware=[accept])(nothing)
    app.event(re.compile(".*"))(nothing)


def _listen_to_requests(app: AsyncApp, bot: Bot) -> None:
    texts = texts_in(bot.language)

    async def command(ack: Ack, body: dict[str, Any]) -> None:
        ask = ask_of_command(body)
        if ask.text.strip().lower() in ("", "help", "ajuda"):
            await ack(text=texts.help.format(command=bot.settings.command))
        elif await bot.take(ask):
            await ack()
        else:
            await ack(text=texts.failed.format(reason=texts.unrecorded))

    async def shortcut(ack: Ack, body: dict[str, Any]) -> None:
        await bot.take(ask_of_shortcut(body))
        await ack()

    app.command(bot.settings.command)(command)
    app.shortcut({"type": "message_action", "callback_id": SHORTCUT})(shortcut)


def _listen_to_buttons(app: AsyncApp, buttons: Buttons) -> None:
    async def helpful(ack: Ack, body: dict[str, Any]) -> None:
        await ack()
        await buttons.vote(body, "up")

    async def not_helpful(ack: Ack, body: dict[str, Any]) -> None:
        await ack()
        await buttons.vote(body, "down")

    async def notify(ack: Ack, body: dict[str, Any]) -> None:
        await ack()
        await buttons.notify(body)

    async def reason(ack: Ack, body: dict[str, Any]) -> None:
        await ack()
        await buttons.reason(body)

    app.action(HELPFUL)(helpful)
    app.action(NOT_HELPFUL)(not_helpful)
    app.action(NOTIFY)(notify)
    app.view(REASON_VIEW)(reason)
