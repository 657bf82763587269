"""Tell staff, in a channel of theirs, of a question that the documentation does not answer. Once.

Role: called when an answer abstains, or when somebody presses its button.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from hpcllm.server.errors import NotFoundError
from hpcllm.ui.slack.composing import staff_note
from hpcllm.ui.slack.outbox import SlackError
from hpcllm.ui.slack.texts import texts_in

if TYPE_CHECKING:
    from hpcllm.assistant.language import Language
    from hpcllm.server.store import Store
    from hpcllm.ui.slack.outbox import Outbox
    from hpcllm.ui.slack.settings import SlackSettings

logger = logging.getLogger(__name__)


class StaffDesk:
    """Posts gaps to the staff channel.

    Args:
        store: has the answers, and knows which gaps were told.
        outbox: sends.
        settings: which channel is told.
        language: of the note where the staff channel has none of its own.
    """

    def __init__(
        self, store: Store, outbox: Outbox, settings: SlackSettings, language: Language
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._settings = settings
        self._language: Language = language
        self._telling: set[str] = set()

    async def tell(
        self, receipt: str, channel: str, user: str, ts: str, *, if_abstained: bool = False
    ) -> bool:
        """Tell staff of the question behind an answer, unless they were told before.

        Args:
            receipt: the answer's.
            channel: where it was asked.
            user: who asked.
            ts: message that the note links to.
            if_abstained: do nothing where the answer is one after all.

        Returns:
            Whether staff know of it now.
        """
        is_direct = channel.startswith("D")
        target = self._settings.of(channel, is_direct=is_direct).staff_channel
        if not target or receipt in self._telling:
            return bool(target)
        self._telling.add(receipt)
        try:
            return await self._tell(receipt, channel, user, ts, target, if_abstained)
        except NotFoundError:
            return False
        except SlackError as exc:
            logger.error("staff could not be told in %s: %s", target, exc)
            return False
        finally:
            self._telling.discard(receipt)

    async def _tell(
        self, receipt: str, channel: str, user: str, ts: str, target: str, if_abstained: bool
    ) -> bool:
        answer = await asyncio.to_thread(self._store.answer, receipt)
        if if_abstained and not answer.abstained:
            return False
        key = f"slack-staff:{receipt}"
        is_new = await asyncio.to_thread(self._store.claim, key, {"channel": channel})
        if not is_new and not await asyncio.to_thread(self._store.unfinished, key):
            return True
        configured = self._settings.of(target).language or "auto"
        texts = texts_in(self._language if configured == "auto" else configured)
        if channel.startswith("D"):
            place, address = f"<@{user}> {texts.in_direct}", ""
        else:
            place, address = f"<@{user}>, <#{channel}>", await self._permalink(channel, ts)
        await self._outbox.post(target, "", staff_note(answer, place, address, texts))
        await asyncio.to_thread(self._store.finish, key)
        return True

    async def _permalink(self, channel: str, ts: str) -> str:
        if not ts:
            return ""
        told = await self._outbox.try_once("chat.getPermalink", channel=channel, message_ts=ts)
        return str(told.get("permalink") or "") if told else ""
