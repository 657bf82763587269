"""Read a Slack thread: what was said in it, and which of its messages are the bot's own.

Role: the thread is the conversation's history, whoever wrote in it and whichever order Slack
delivered its events in: what counts is what stands in the thread above the question.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpcllm.errors import HpcLlmError
from hpcllm.records import Turn
from hpcllm.ui.slack.incoming import PERSONS_SUBTYPES, plain_text
from hpcllm.ui.slack.outbox import ABOUT_TYPE, SlackError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hpcllm.server.store import Store
    from hpcllm.ui.slack.incoming import Ask
    from hpcllm.ui.slack.outbox import Outbox

logger = logging.getLogger(__name__)

PAGE_MESSAGES = 200
"""Messages that Slack is asked for at a time."""
PAGES = 5
"""Most such requests for one thread."""
HISTORY_TURNS = 12
"""Latest messages that an answer is given as history."""
TURN_CHARACTERS = 4000
"""Longest message of the history; a pasted log beyond this is cut."""


@dataclass(frozen=True, slots=True)
class Line:
    """A message of a thread.

    Attributes:
        ts: its time, which is its id.
        user: who wrote it, or empty.
        text: in Slack's notation.
        about: the metadata of the bot's own messages, else empty.
        is_own: whether this bot wrote it.
        is_person: whether a person wrote it.
    """

    ts: str
    user: str
    text: str
    about: Mapping[str, Any]
    is_own: bool
    is_person: bool


async def read_thread(outbox: Outbox, ask: Ask, thread: str, bot_user: str) -> list[Line]:
    """Return the messages of a thread, oldest first; empty where the bot may not read it."""
    method = "conversations.replies" if thread else "conversations.history"
    where = {"ts": thread} if thread else {}
    return await _read(outbox, method, {"channel": ask.channel, **where}, bot_user)


async def _read(
    outbox: Outbox, method: str, arguments: dict[str, Any], bot_user: str
) -> list[Line]:
    lines: list[Line] = []
    cursor = ""
    for _ in range(PAGES):
        more = {"cursor": cursor} if cursor else {}
        try:
            page = await outbox.call(
                method, limit=PAGE_MESSAGES, include_all_metadata="true", **arguments, **more
            )
        except SlackError as exc:
            logger.warning("a thread cannot be read, so it is no history: %s", exc)
            return lines
        lines += [_line(message, bot_user) for message in page.get("messages") or []]
        cursor = str((page.get("response_metadata") or {}).get("next_cursor") or "")
        if not cursor or not arguments.get("ts"):
            break
    return sorted(lines, key=lambda line: moment(line.ts))


def _line(message: Mapping[str, Any], bot_user: str) -> Line:
    user = str(message.get("user") or "")
    is_own = user == bot_user
    metadata = message.get("metadata") or {}
    mine = is_own and metadata.get("event_type") == ABOUT_TYPE
    return Line(
        ts=str(message["ts"]),
        user=user,
        text=str(message.get("text") or ""),
        about=metadata.get("event_payload") or {} if mine else {},
        is_own=is_own,
        is_person=not message.get("bot_id")
        and not is_own
        and str(message.get("subtype") or "") in PERSONS_SUBTYPES,
    )


def moment(ts: str) -> tuple[int, int]:
    """Return a ``ts`` as something that can be compared."""
    seconds, _, fraction = ts.partition(".")
    return int(seconds or 0), int(fraction or 0)


def own_parts(lines: Iterable[Line], key: str) -> dict[int, str]:
    """Return what the bot has posted for a question: number of the part to its ``ts``."""
    return {
        int(line.about.get("part", 0)): line.ts
        for line in lines
        if line.about.get("key") == key and line.about.get("state") in ("working", "done")
    }


def is_complete(lines: Iterable[Line], key: str) -> bool:
    """Tell whether the whole answer to a question stands there already."""
    own = [line.about for line in lines if line.about.get("key") == key]
    done = {int(about["part"]) for about in own if about.get("state") == "done"}
    count = max((int(about.get("parts", 0)) for about in own), default=0)
    return count > 0 and done >= set(range(count))


def question_of(ask: Ask, lines: Sequence[Line], bot_user: str) -> str:
    """Return a question as plain text.

    The shortcut on the message that begins a thread takes along what its author added below it.
    """
    texts = [ask.text]
    if ask.kind == "thread" and ask.thread == ask.ts:
        author = next((line.user for line in lines if line.ts == ask.ts), "")
        texts += [
            line.text
            for line in lines
            if line.is_person and line.user == author and moment(line.ts) > moment(ask.ts)
        ]
    return "\n".join(filter(None, (plain_text(text, bot_user) for text in texts)))


async def history_of(ask: Ask, lines: Sequence[Line], store: Store, bot_user: str) -> list[Turn]:
    """Return what was said above a question, oldest first.

    Answers are taken from the store in their own Markdown, else from Slack.
    """
    turns = []
    for line in lines:
        if moment(line.ts) >= moment(ask.ts):
            break
        if line.is_person:
            text = plain_text(line.text, bot_user)
            turns += [Turn("user", text[:TURN_CHARACTERS])] if text else []
        elif line.about.get("state") == "done" and line.about.get("part") == 0:
            text = await asyncio.to_thread(_answered, store, line)
            turns.append(Turn("assistant", text[:TURN_CHARACTERS]))
        elif line.about.get("state") == "asked":
            quoted = plain_text(line.text.partition("\n")[2])
            asked = "\n".join(row.removeprefix("> ") for row in quoted.splitlines())
            turns += [Turn("user", asked)] if asked else []
    return turns[-HISTORY_TURNS:]


def _answered(store: Store, line: Line) -> str:
    try:
        return store.answer(str(line.about.get("receipt") or "")).text
    except HpcLlmError:
        return plain_text(line.text)
