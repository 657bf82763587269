"""The buttons under an answer: helpful, not helpful and why, tell staff.

Role: each lands in the same store as the web page's; one vote a person and answer, the last counts.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

from hpcllm.assistant.language import detect_language
from hpcllm.errors import HpcLlmError
from hpcllm.ui.slack.composing import reason_view
from hpcllm.ui.slack.texts import texts_in

if TYPE_CHECKING:
    from hpcllm.ui.slack.bot import Bot
    from hpcllm.ui.slack.texts import Texts

logger = logging.getLogger(__name__)


class Buttons:
    """Handles what people press and send.

    Args:
        bot: whose answers they are under.
    """

    def __init__(self, bot: Bot) -> None:
        self._bot = bot

    async def vote(self, body: dict[str, Any], rating: str) -> None:
        """Record a vote; a vote down opens the form that asks why."""
        press = _Press(body)
        try:
            await asyncio.to_thread(
                self._bot.store.give_feedback, press.value, rating, author=press.author
            )
        except HpcLlmError as exc:
            logger.warning("a vote was not recorded: %s", exc)
            await self._whisper(press, self._default_texts(press.channel).forgotten)
            return
        texts = await self._texts(press)
        if rating == "up":
            await self._whisper(press, texts.thanks)
            return
        view = reason_view(json.dumps(press.place()), texts)
        opened = await self._bot.outbox.try_once("views.open", trigger_id=press.trigger, view=view)
        if opened is None:
            await self._whisper(press, texts.thanks)

    async def reason(self, body: dict[str, Any]) -> None:
        """Record why an answer is not helpful."""
        press = _Press.of_view(body)
        values = body["view"]["state"]["values"]
        option = values.get("reason", {}).get("value", {}).get("selected_option") or {}
        comment = values.get("comment", {}).get("value", {}).get("value") or ""
        try:
            await asyncio.to_thread(
                self._bot.store.give_feedback,
                press.value,
                "down",
                reason=option.get("value") or "",
                comment=comment,
                author=press.author,
            )
        except HpcLlmError as exc:
            logger.warning("a reason was not recorded: %s", exc)
            return
        await self._whisper(press, (await self._texts(press)).thanks)

    async def notify(self, body: dict[str, Any]) -> None:
        """Tell staff, because the person who asked wants it."""
        press = _Press(body)
        told = await self._bot.staff.tell(
            press.value, press.channel, press.user, press.thread or press.ts
        )
        texts = await self._texts(press)
        await self._whisper(press, texts.notified if told else texts.forgotten)

    async def _texts(self, press: _Press) -> Texts:
        """Return the sentences in the language of the channel, else of the question."""
        rules = self._bot.settings.of(press.channel, is_direct=press.channel.startswith("D"))
        if rules.language != "auto":
            return texts_in(rules.language)
        try:
            answer = await asyncio.to_thread(self._bot.store.answer, press.value)
        except HpcLlmError:
            return texts_in(self._bot.language)
        return texts_in(detect_language(answer.question, self._bot.language))

    def _default_texts(self, channel: str) -> Texts:
        rules = self._bot.settings.of(channel, is_direct=channel.startswith("D"))
        return texts_in(self._bot.language if rules.language == "auto" else rules.language)

    async def _whisper(self, press: _Press, text: str) -> None:
        await self._bot.outbox.whisper(press.channel, press.user, text, thread=press.thread)


class _Press:
    """Who pressed what, where."""

    def __init__(self, body: dict[str, Any]) -> None:
        container = body.get("container") or {}
        message = body.get("message") or {}
        self.value = str((body.get("actions") or [{}])[0].get("value") or "")
        self.user = str((body.get("user") or {}).get("id") or "")
        self.team = str((body.get("team") or {}).get("id") or "")
        self.channel = str((body.get("channel") or {}).get("id") or "")
        self.ts = str(message.get("ts") or container.get("message_ts") or "")
        self.thread = str(message.get("thread_ts") or container.get("thread_ts") or "")
        self.trigger = str(body.get("trigger_id") or "")

    @classmethod
    def of_view(cls, body: dict[str, Any]) -> _Press:
        press = cls(body)
        place = json.loads(body["view"]["private_metadata"])
        press.value, press.channel, press.thread = (
            str(place[name]) for name in ("receipt", "channel", "thread")
        )
        return press

    @property
    def author(self) -> str:
        return f"{self.team}/{self.user}"

    def place(self) -> dict[str, str]:
        return {"receipt": self.value, "channel": self.channel, "thread": self.thread}
