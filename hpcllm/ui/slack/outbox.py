"""Everything the bot says to Slack goes through here: paced, and obeying "come back later".

Role: the one user of the Web API. Slack allows about one message a second in a channel and answers
429 with ``Retry-After`` beyond its limits; that pause then holds for every call of the method.
What must be said (an answer) waits and is tried again; what may be left out (progress) is left out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from hpcllm.errors import ConfigError, HpcLlmError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hpcllm.models.backends.openai_api import Secret
    from hpcllm.ui.slack.composing import Message

logger = logging.getLogger(__name__)

API_URL = "https://slack.com/api/"
ABOUT_TYPE = "hpcllm"
"""Type of the metadata by which the bot finds its own messages."""
POST_GAP_S = 1.0
"""Seconds between two messages in one channel."""
PATIENCE_S = 3600.0
"""Seconds for which a call that must succeed is tried again: longer than most outages of Slack."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
"""Pauses after an error that may pass double from the first to the longest."""
CALL_LIMIT_S = 30.0
"""Longest single call in seconds."""
RESPONSE_URL_TRIES = 3

_READING = frozenset({"conversations.replies", "conversations.history", "chat.getPermalink"})
"""Methods that take their arguments in the address only."""
_PASSING = frozenset(
    {"internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org"}
)
"""Errors of Slack's own that may be gone a moment later."""
_REFUSED = frozenset(
    {"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"}
)


class SlackError(HpcLlmError):
    """Slack refused a call.

    Attributes:
        code: Slack's name of the error, such as ``not_in_channel``.
    """

    def __init__(self, method: str, code: str, detail: str = "") -> None:
        self.code = code
        super().__init__(f"Slack refused {method}: {code}{f' ({detail})' if detail else ''}")


class SlackUnreachableError(HpcLlmError):
    """Slack could not be reached, or kept the bot waiting for too long; trying later can help."""


class Outbox:
    """Calls Slack's Web API.

    Args:
        token: the bot token.
        api_url: where the Web API is, ending in ``/``.
        post_gap_s: seconds between two messages in one channel.
        patience_s: seconds for which a call that must succeed is tried again.
    """

    def __init__(
        self,
        token: Secret,
        *,
        api_url: str = API_URL,
        post_gap_s: float = POST_GAP_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.client = AsyncWebClient(token=token.reveal(), base_url=api_url, retry_handlers=[])
        self._post_gap_s = post_gap_s
        self._patience_s = patience_s
        self._not_before: dict[str, float] = defaultdict(float)
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._posted: dict[str, float] = defaultdict(float)

    async def close(self) -> None:
        """Close the connections."""
        if self.client.session is not None and not self.client.session.closed:
            await self.client.session.close()

    async def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Call a method; wait and try again where that can help.

        Raises:
            SlackError: Slack refuses it for good.
            SlackUnreachableError: patience is at its end.
        """
        until = time.monotonic() + self._patience_s
        pause = FIRST_PAUSE_S
        while True:
            await self._wait(method, until)
            try:
                return await self._once(method, arguments)
            except SlackUnreachableError as exc:
                waited = self._not_before[method] > time.monotonic()
                if not waited and time.monotonic() + pause > until:
                    raise
                logger.info("%s is tried again: %s", method, exc)
                if not waited:
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE_S)

    async def try_once(self, method: str, **arguments: Any) -> dict[str, Any] | None:
        """Call a method that may be left out; None where it is, or fails."""
        if self._not_before[method] > time.monotonic():
            return None
        try:
            return await self._once(method, arguments)
        except (SlackError, SlackUnreachableError) as exc:
            logger.info("left out: %s", exc)
            return None

    async def post(self, channel: str, thread: str, message: Message) -> str:
        """Post a message and return its ``ts``; errors as :meth:`call`."""
        async with self._turns[channel]:
            wait = self._posted[channel] + self._post_gap_s - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            try:
                sent = await self.call(
                    "chat.postMessage",
                    channel=channel,
                    **({"thread_ts": thread} if thread else {}),
                    unfurl_links=False,
                    unfurl_media=False,
                    **_body(message),
                )
            finally:
                self._posted[channel] = time.monotonic()
        return str(sent["ts"])

    async def update(self, channel: str, ts: str, message: Message) -> None:
        """Replace a message; errors as :meth:`call`."""
        await self.call("chat.update", channel=channel, ts=ts, **_body(message))

    async def try_update(self, channel: str, ts: str, message: Message) -> None:
        """Replace a message if that is possible at once."""
        await self.try_once("chat.update", channel=channel, ts=ts, **_body(message))

    async def whisper(self, channel: str, user: str, text: str, *, thread: str = "") -> None:
        """Tell one person something that the others do not see, if possible."""
        arguments = {"thread_ts": thread} if thread else {}
        await self.try_once(
            "chat.postEphemeral", channel=channel, user=user, text=text, parse="none", **arguments
        )

    async def respond(self, response_url: str, message: Message) -> bool:
        """Answer a command or shortcut for its user alone; return whether Slack took it."""
        body = {
            "response_type": "ephemeral",
            "replace_original": False,
            "text": message.text,
            "blocks": message.blocks,
        }
        for pause in range(1, RESPONSE_URL_TRIES + 1):
            try:
                timeout = aiohttp.ClientTimeout(total=CALL_LIMIT_S)
                async with (
                    aiohttp.ClientSession(timeout=timeout, trust_env=True) as session,
                    session.post(response_url, json=body) as response,
                ):
                    if response.status == 200:
                        return True
                    if response.status != 429:
                        logger.warning("a response to its user was refused: %s", response.status)
                        return False
                    await asyncio.sleep(_seconds(response.headers, pause))
            except (aiohttp.ClientError, TimeoutError) as exc:
                logger.info("a response to its user is tried again: %s", type(exc).__name__)
                await asyncio.sleep(pause)
        return False

    async def _wait(self, method: str, until: float) -> None:
        pause = self._not_before[method] - time.monotonic()
        if time.monotonic() + max(pause, 0) > until:
            raise SlackUnreachableError(f"{method} may not be called for {pause:.0f} more seconds")
        if pause > 0:
            await asyncio.sleep(pause)

    async def _once(self, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if self.client.session is None or self.client.session.closed:
            timeout = aiohttp.ClientTimeout(total=CALL_LIMIT_S)
            self.client.session = aiohttp.ClientSession(timeout=timeout, trust_env=True)
        try:
            if method in _READING:
                response = await self.client.api_call(
                    method, http_verb="GET", params=dict(arguments)
                )
            else:
                response = await self.client.api_call(method, json=dict(arguments))
        except SlackApiError as exc:
            raise self._meaning_of(exc, method) from exc
        except (SlackClientError, aiohttp.ClientError, TimeoutError, OSError, ValueError) as exc:
            detail = f"{type(exc).__name__}: {exc}"
            raise SlackUnreachableError(f"{method} did not reach Slack: {detail}") from exc
        data: dict[str, Any] = response.data
        return data

    def _meaning_of(self, error: SlackApiError, method: str) -> HpcLlmError:
        response = error.response
        status = int(getattr(response, "status_code", 0) or getattr(response, "status", 0))
        data = getattr(response, "data", None)
        data = data if isinstance(data, dict) else {}
        code = str(data.get("error") or status)
        if status == 429 or code in ("ratelimited", "rate_limited"):
            seconds = _seconds(response.headers, FIRST_PAUSE_S)
            self._not_before[method] = time.monotonic() + seconds
            return SlackUnreachableError(f"{method} may be called again in {seconds:.0f} s")
        if status >= 500 or code in _PASSING:
            return SlackUnreachableError(f"{method} failed within Slack: {code}")
        if code in _REFUSED:
            return ConfigError(
                f"Slack refused SLACK_BOT_TOKEN ({code}): install the app again and copy the Bot "
                "User OAuth Token from its page OAuth & Permissions"
            )
        told = (data.get("response_metadata") or {}).get("messages") or []
        needed = [f"needs the scope {data['needed']}"] if data.get("needed") else []
        detail = "; ".join([*map(str, told), *needed])
        return SlackError(method, code, detail)


def _body(message: Message) -> dict[str, Any]:
    """Return the arguments of a message; nothing in it is parsed for names or addresses."""
    body = {
        "text": message.text,
        "blocks": message.blocks,
        "parse": "none",
        "link_names": False,
    }
    if message.about:
        body["metadata"] = {"event_type": ABOUT_TYPE, "event_payload": dict(message.about)}
    return body


def _seconds(headers: Mapping[str, Any], otherwise: float) -> float:
    """Read ``Retry-After``; some versions of the client give its values as lists."""
    for name, value in headers.items():
        if name.lower() == "retry-after":
            first = value[0] if isinstance(value, list) and value else value
            try:
                return max(0.0, float(first))
            except (TypeError, ValueError):
                return otherwise
    return otherwise
