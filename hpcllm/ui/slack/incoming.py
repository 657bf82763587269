"""What Slack sends, read: who asks what, where, and whether that is for the bot.

Role: pure functions from payloads to :class:`Ask`; nothing here talks to Slack. Payloads are
untrusted in content (people wrote them) but signed by Slack.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from hpcllm.ui.slack.settings import When

KEY_PREFIX = "slack:"
"""Start of the keys under which work is kept in the store."""
STORED_KEYS_PREFIX = "slack"
"""Start of all keys of the bot, those of events and those of messages."""
PERSONS_SUBTYPES = frozenset({"", "thread_broadcast", "file_share", "me_message"})
"""Kinds of messages that a person writes; others are edits, joins, deletions and the like."""

Kind = Literal["message", "command", "thread"]

_ENTITY = re.compile(r"<([^<>\n]+)>")
_MENTION_FIRST = re.compile(r"\s*<@([A-Z0-9]+)(?:\|[^>]*)?>")


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to the bot; it can be stored and taken up again after a restart.

    Attributes:
        key: names the delivery, the same for all of Slack's retries of it.
        kind: a message, a slash command, or the shortcut "answer this thread".
        team: workspace id.
        channel: channel id.
        user: who asks.
        text: the question in Slack's own notation.
        ts: the message asked about; empty for a command.
        thread_ts: the thread it stands in; empty at the top level.
        is_direct: whether it is a direct message to the bot.
        response_url: where a command or shortcut may be answered for its user alone.
    """

    key: str
    kind: Kind
    team: str
    channel: str
    user: str
    text: str
    ts: str = ""
    thread_ts: str = ""
    is_direct: bool = False
    response_url: str = ""

    @property
    def thread(self) -> str:
        """The thread to answer in: its own, else the one that its message begins."""
        return self.thread_ts or self.ts

    @property
    def message_key(self) -> str:
        """Names the message, which several events can be about; empty for a command."""
        return f"slack-message:{self.team}/{self.channel}/{self.ts}" if self.ts else ""

    def to_payload(self) -> dict[str, Any]:
        """Return it as JSON-ready data."""
        return asdict(self)

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> Ask:
        """Read what :meth:`to_payload` gave; unknown fields of other versions are left out."""
        names = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in payload.items() if name in names})


def ask_of_event(body: dict[str, Any], bot_user: str, when: When) -> Ask | None:
    """Return the question that an event asks the bot, or None where there is none for it.

    Args:
        body: the whole ``event_callback`` of an ``app_mention`` or ``message``.
        bot_user: the bot's own user id.
        when: what is answered in that channel.
    """
    event = body.get("event") or {}
    if when == "never" or not _is_from_person(event, bot_user):
        return None
    text = str(event.get("text") or "")
    is_direct = event.get("channel_type") == "im"
    is_mention = f"<@{bot_user}" in text
    if not (is_direct or is_mention or (when == "always" and not _is_to_another(text))):
        return None
    return Ask(
        key=f"{KEY_PREFIX}{body['event_id']}",
        kind="message",
        team=str(body.get("team_id") or event.get("team") or ""),
        channel=str(event["channel"]),
        user=str(event["user"]),
        text=text,
        ts=str(event["ts"]),
        thread_ts=str(event.get("thread_ts") or ""),
        is_direct=is_direct,
    )


def _is_from_person(event: dict[str, Any], bot_user: str) -> bool:
    return (
        not event.get("bot_id")
        and not event.get("bot_profile")
        and str(event.get("subtype") or "") in PERSONS_SUBTYPES
        and bool(event.get("user"))
        and event["user"] != bot_user
        and all(event.get(name) for name in ("channel", "ts"))
    )


def _is_to_another(text: str) -> bool:
    """Tell whether a message begins by addressing somebody; the bot was looked for before."""
    return bool(_MENTION_FIRST.match(text))


def ask_of_command(body: dict[str, Any]) -> Ask:
    """Return the question of a slash command."""
    channel = str(body["channel_id"])
    return Ask(
        key=f"{KEY_PREFIX}{body['trigger_id']}",
        kind="command",
        team=str(body.get("team_id") or ""),
        channel=channel,
        user=str(body["user_id"]),
        text=str(body.get("text") or ""),
        is_direct=channel.startswith("D"),
        response_url=str(body.get("response_url") or ""),
    )


def ask_of_shortcut(body: dict[str, Any]) -> Ask:
    """Return the question of the message shortcut: the message that it was called on."""
    message = body["message"]
    channel = str(body["channel"]["id"])
    return Ask(
        key=f"{KEY_PREFIX}{body['trigger_id']}",
        kind="thread",
        team=str((body.get("team") or {}).get("id") or ""),
        channel=channel,
        user=str(body["user"]["id"]),
        text=str(message.get("text") or ""),
        ts=str(message["ts"]),
        thread_ts=str(message.get("thread_ts") or ""),
        is_direct=channel.startswith("D"),
        response_url=str(body.get("response_url") or ""),
    )


def plain_text(text: str, bot_user: str = "") -> str:
    """Return Slack's notation as the plain text that the person saw.

    Args:
        text: with ``<@U1>``, ``<https://…|label>``, ``&amp;`` and the like.
        bot_user: its mentions are left out.
    """

    def entity(match: re.Match[str]) -> str:
        target, _, label = match.group(1).partition("|")
        if target[0] == "@":
            return "" if target[1:] == bot_user else f"@{label or target[1:]}"
        if target[0] == "#":
            return f"#{label or target[1:]}"
        if target[0] == "!":
            return label or f"@{target[1:].partition('^')[0]}"
        target = target.removeprefix("mailto:")
        return target if not label or label in target else f"{label} ({target})"

    shown = _ENTITY.sub(entity, text)
    for escaped, character in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        shown = shown.replace(escaped, character)
    return shown.strip()
