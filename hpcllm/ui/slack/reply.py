"""One answer on its way into Slack: a first message that is edited, then what does not fit in it.

Role: keeps to exactly one answer for one question. Every message carries the question's key in its
metadata, so that a bot that was killed in the middle finds its own half-finished messages in the
thread and goes on with them instead of posting new ones.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from hpcllm.ui.slack.outbox import SlackError
from hpcllm.ui.slack.texts import Texts, texts_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hpcllm.ui.slack.composing import Block, Message
    from hpcllm.ui.slack.incoming import Ask
    from hpcllm.ui.slack.outbox import Outbox

logger = logging.getLogger(__name__)

EDIT_GAP_S = 1.5
"""Least seconds between two edits that show progress; Slack allows about one a second."""
NOT_HERE = frozenset({"not_in_channel", "channel_not_found", "no_permission", "restricted_action"})
"""Errors of a channel that the bot may not write in."""
_GONE = frozenset({"message_not_found", "cant_update_message", "edit_window_closed"})


class Reply:
    """Shows progress and then the answer.

    Args:
        outbox: sends.
        ask: the question.
        thread: thread to answer in.
        found: what an earlier run posted: number of the part to its ``ts``.
        texts: sentences.
        is_private: whether only the person who asked is answered, through their response URL.
        edit_gap_s: least seconds between two edits that show progress.
    """

    def __init__(
        self,
        outbox: Outbox,
        ask: Ask,
        thread: str,
        *,
        found: Mapping[int, str] | None = None,
        texts: Texts | None = None,
        is_private: bool = False,
        edit_gap_s: float = EDIT_GAP_S,
    ) -> None:
        self._outbox = outbox
        self._ask = ask
        self._thread = thread
        self._posted = dict(found or {})
        self._texts = texts or texts_in("en")
        self._edit_gap_s = edit_gap_s
        self._edited = -edit_gap_s
        self._shown: list[Block] = []
        self._is_private = is_private

    @property
    def is_due(self) -> bool:
        """Whether progress may be shown now."""
        return not self._is_private and time.monotonic() - self._edited >= self._edit_gap_s

    async def show(self, message: Message) -> None:
        """Show progress: at once where nothing stands there yet, else if it is time again."""
        if not self.is_due or message.blocks == self._shown:
            return
        if 0 not in self._posted:
            await self._post(0, message)
        else:
            marked = self._marked(message, 0)
            await self._outbox.try_update(self._ask.channel, self._posted[0], marked)
        self._edited, self._shown = time.monotonic(), message.blocks

    async def finish(self, messages: Sequence[Message]) -> None:
        """Show the answer in place of the progress, and the rest of it below.

        Raises:
            SlackError: Slack refuses it for good.
            SlackUnreachableError: Slack cannot be reached.
        """
        for part, message in enumerate(messages):
            if part in self._posted:
                await self._replace(part, message)
            else:
                await self._post(part, message)
        for part in [part for part in self._posted if part >= len(messages)]:
            await self._outbox.try_once(
                "chat.delete", channel=self._ask.channel, ts=self._posted.pop(part)
            )

    async def _replace(self, part: int, message: Message) -> None:
        try:
            await self._outbox.update(
                self._ask.channel, self._posted[part], self._marked(message, part)
            )
        except SlackError as exc:
            if exc.code not in _GONE:
                raise
            await self._post(part, message)  # somebody deleted it meanwhile

    async def _post(self, part: int, message: Message) -> None:
        if not self._is_private:
            try:
                marked = self._marked(message, part)
                self._posted[part] = await self._outbox.post(
                    self._ask.channel, self._thread, marked
                )
                return
            except SlackError as exc:
                if exc.code not in NOT_HERE or not self._ask.response_url:
                    raise
                self._is_private = True
        if message.about.get("state") == "done":
            await self._tell_privately(part, message)

    async def _tell_privately(self, part: int, message: Message) -> None:
        if part == 0:
            note = {"type": "mrkdwn", "text": self._texts.not_here}
            blocks = [*message.blocks, {"type": "context", "elements": [note]}]
            message = replace(message, blocks=blocks)
        await self._outbox.respond(self._ask.response_url, message)

    def _marked(self, message: Message, part: int) -> Message:
        return replace(message, about={**message.about, "key": self._ask.key, "part": part})
