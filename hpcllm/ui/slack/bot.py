"""The bot: takes on questions, answers each once in its thread, tells staff of gaps.

Role: between Slack's payloads (:mod:`~hpcllm.ui.slack.app`) and the service, which answers. A
question is written down before Slack gets its acknowledgement and crossed out when its answer
stands in the thread; what a killed bot leaves is taken up by the next one. :meth:`Bot._work` is the
life of one question.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from hpcllm.assistant.language import Language, detect_language
from hpcllm.errors import BusyError, HpcLlmError, StoreError
from hpcllm.ui.slack import thread as threads
from hpcllm.ui.slack.composing import Message, compose, failure, opening, progress
from hpcllm.ui.slack.incoming import KEY_PREFIX, STORED_KEYS_PREFIX, Ask, plain_text
from hpcllm.ui.slack.outbox import Outbox, SlackError, SlackUnreachableError
from hpcllm.ui.slack.reply import EDIT_GAP_S, NOT_HERE, Reply
from hpcllm.ui.slack.staff import StaffDesk
from hpcllm.ui.slack.texts import texts_in

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from hpcllm.records import Answer, Turn
    from hpcllm.server.service import AssistantService
    from hpcllm.server.store import Store
    from hpcllm.ui.slack.settings import ChannelRules, SlackSettings
    from hpcllm.ui.slack.texts import Texts
    from hpcllm.ui.slack.thread import Line

logger = logging.getLogger(__name__)

CLAIM_LIMIT_S = 2.0
"""Seconds that writing a question down may take; Slack wants its acknowledgement within three."""
BUSY_PATIENCE_S = 900.0
"""Seconds that a question waits for the model before its author is told to ask again."""
OLDEST = timedelta(days=1)
"""Questions that were left unanswered for longer are dropped: their authors have moved on."""

KEPT_EVENTS = timedelta(days=7)
"""How long a handled event is remembered; Slack sends one again for hours at most."""
SWEEP_S = 24 * 3600.0
"""Seconds between two rounds of forgetting them."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the bot is in its workspace: ids of the team, the bot user and the bot."""

    team: str
    user: str
    bot: str


@dataclass(frozen=True, slots=True)
class _Talk:
    """A question with all that its answer and the way to show it need."""

    reply: Reply
    rules: ChannelRules
    texts: Texts
    question: str
    history: Sequence[Turn]


class Bot:
    """Answers in Slack.

    Args:
        service: answers; started and closed with the bot.
        store: conversations and events; not closed by the bot.
        outbox: sends; closed with the bot.
        settings: what the site decided.
        language: of the bot's sentences where a question's own is not clear.
        edit_gap_s: least seconds between two edits that show progress.
    """

    def __init__(
        self,
        service: AssistantService,
        store: Store,
        outbox: Outbox,
        settings: SlackSettings,
        *,
        language: Language = "en",
        edit_gap_s: float = EDIT_GAP_S,
    ) -> None:
        self.service = service
        self.store = store
        self.outbox = outbox
        self.settings = settings
        self.language = language
        self.staff = StaffDesk(store, outbox, settings, language)
        self._edit_gap_s = edit_gap_s
        self._identity: Identity | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._threads: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._claimers = ThreadPoolExecutor(2, "slack-claim")

    @property
    def identity(self) -> Identity:
        """Who the bot is; known once :meth:`identify` was called."""
        if self._identity is None:
            raise HpcLlmError("the bot does not know who it is yet: call identify() first")
        return self._identity

    async def identify(self) -> Identity:
        """Ask Slack who the bot is.

        Raises:
            ConfigError: the token is refused.
            SlackUnreachableError: Slack cannot be reached.
        """
        told = await self.outbox.call("auth.test")
        self._identity = Identity(
            str(told.get("team_id") or ""), str(told["user_id"]), str(told.get("bot_id") or "")
        )
        return self._identity

    async def start(self) -> None:
        """Begin to work, first on what an earlier bot left unanswered; errors as `identify`."""
        if self._identity is None:
            await self.identify()
        await self.service.start()
        for delivery in await asyncio.to_thread(self.store.unfinished, KEY_PREFIX):
            if datetime.now(UTC) - delivery.created > OLDEST:
                logger.warning("dropped a question that was left unanswered: %s", delivery.key)
                await asyncio.to_thread(self.store.finish, delivery.key)
                continue
            self._begin(Ask.from_payload(delivery.payload), resumed=True)
        self.spawn(self._forget_events())

    async def _forget_events(self) -> None:
        """Forget the keys of old events, now and every day."""
        while True:
            before = datetime.now(UTC) - KEPT_EVENTS
            try:
                await asyncio.to_thread(
                    self.store.forget_finished, STORED_KEYS_PREFIX, before=before
                )
            except StoreError as exc:
                logger.warning("old events are not forgotten yet: %s", exc)
            await asyncio.sleep(SWEEP_S)

    async def close(self) -> None:
        """Stop; what is not answered yet stays written down for the next bot."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.service.close()
        await self.outbox.close()
        await asyncio.to_thread(self._claimers.shutdown)

    async def take(self, ask: Ask) -> bool:
        """Write a question down and begin to answer it, unless that was done before.

        Returns:
            Whether it is written down, so that Slack need not send it again.
        """
        claim = self.spawn(self._claim(ask))
        await asyncio.wait({claim}, timeout=CLAIM_LIMIT_S)
        if not claim.done():
            logger.warning("the database is slow: %s is not written down yet", ask.key)
            return False
        return not claim.cancelled() and claim.result()

    async def _claim(self, ask: Ask) -> bool:
        loop = asyncio.get_running_loop()
        try:
            is_new = await loop.run_in_executor(
                self._claimers, self.store.claim, ask.key, ask.to_payload()
            )
        except HpcLlmError as exc:
            logger.error("a question could not be written down: %s", exc)
            return False
        if is_new:
            self._begin(ask, resumed=False)
        else:
            logger.info("sent again by Slack and left out: %s", ask.key)
        return True

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something that :meth:`close` ends."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _begin(self, ask: Ask, *, resumed: bool) -> None:
        self.spawn(self._work(ask, resumed))

    async def _work(self, ask: Ask, resumed: bool) -> None:
        """Answer one question and cross it out."""
        turn = self._threads.setdefault(f"{ask.channel}/{ask.thread or ask.key}", asyncio.Lock())
        async with turn:  # one answer at a time in a thread: the next one has it as its history
            try:
                if await asyncio.to_thread(self._is_first, ask):
                    await self._answer(ask, resumed)
                await asyncio.to_thread(self._cross_out, ask)
            except SlackError as exc:
                logger.error("an answer could not be given in %s: %s", ask.channel, exc)
                await asyncio.to_thread(self._cross_out, ask)
            except (SlackUnreachableError, StoreError) as exc:
                logger.error("%s stays unanswered until the bot is started again: %s", ask.key, exc)
            except Exception:
                logger.exception("%s stays unanswered until the bot is started again", ask.key)

    def _is_first(self, ask: Ask) -> bool:
        """Tell whether no other event is about the same message.

        A mention in a channel where the bot reads everything comes as two events.
        """
        key = ask.message_key
        if not key or ask.kind != "message" or self.store.claim(key, {"event": ask.key}):
            return True
        owners = [kept.payload.get("event") for kept in self.store.unfinished(key)]
        return ask.key in owners

    def _cross_out(self, ask: Ask) -> None:
        if ask.message_key and ask.kind == "message":
            owners = [k.payload.get("event") for k in self.store.unfinished(ask.message_key)]
            if ask.key in owners:
                self.store.finish(ask.message_key)
        self.store.finish(ask.key)

    async def _answer(self, ask: Ask, resumed: bool) -> None:
        """Answer in the thread, going on with what an earlier bot may have posted of it."""
        me = self.identity.user
        rules = self.settings.of(ask.channel, is_direct=ask.is_direct)
        texts = self._texts(rules, plain_text(ask.text, me))
        thread = ask.thread or await self._open_thread(ask, texts, resumed)
        is_read = bool(thread) and (bool(ask.thread_ts) or resumed or ask.kind == "thread")
        found: list[Line] = []
        if resumed and thread:
            found = await threads.read_thread(self.outbox, ask, thread, me)
        if threads.is_complete(found, ask.key):
            await self._tell_staff_again(ask, thread, rules, found)
            return
        reply = Reply(
            self.outbox,
            ask,
            thread,
            found=threads.own_parts(found, ask.key),
            texts=texts,
            is_private=not thread,
            edit_gap_s=self._edit_gap_s,
        )
        await reply.show(progress(texts.searching))
        if is_read and not resumed:
            found = await threads.read_thread(self.outbox, ask, thread, me)
        talk = _Talk(
            reply,
            rules,
            texts,
            threads.question_of(ask, found, me),
            await threads.history_of(ask, found, self.store, me) if ask.ts else [],
        )
        answer = await self._give(talk)
        if answer and answer.abstained and answer.receipt and rules.notify_staff == "always":
            await self.staff.tell(answer.receipt.id, ask.channel, ask.user, thread or ask.ts)

    async def _give(self, talk: _Talk) -> Answer | None:
        """Show the answer, or why there is none."""
        reply, rules, texts = talk.reply, talk.rules, talk.texts
        if not talk.question:
            await reply.finish([failure(texts.empty, texts)])
            return None
        try:
            answer = await self._write(talk)
        except (SlackError, SlackUnreachableError):
            raise
        except HpcLlmError as exc:
            logger.warning("a question was not answered: %s", exc)
            await reply.finish([failure(str(exc), texts)])
            return None
        except Exception:
            logger.exception("a question was not answered")
            await reply.finish([failure(texts.unrecorded, texts)])
            return None
        asks_staff = bool(rules.staff_channel) and rules.notify_staff == "asked"
        await reply.finish(compose(answer, texts, can_notify=asks_staff))
        return answer

    async def _write(self, talk: _Talk) -> Answer:
        """Wait for a place in the queue, then for the answer, and show how it goes on."""
        until = time.monotonic() + BUSY_PATIENCE_S
        while True:
            try:
                return await self._follow(talk)
            except BusyError as exc:
                if time.monotonic() + exc.retry_after_s > until:
                    raise HpcLlmError(talk.texts.busy) from exc
                await talk.reply.show(progress(talk.texts.waiting))
                await asyncio.sleep(exc.retry_after_s)

    async def _follow(self, talk: _Talk) -> Answer:
        texts, reply = talk.texts, talk.reply
        stream = await self.service.begin(
            talk.question, history=talk.history, cluster=talk.rules.cluster, channel="slack"
        )
        doing, draft = texts.waiting if stream.is_waiting else texts.searching, ""
        answer: Answer | None = None
        async with aclosing(stream):
            if stream.is_waiting:
                await reply.show(progress(doing))
            async for event in stream:
                if event.kind == "passages":
                    doing = texts.reading.format(count=len(event.payload))
                elif event.kind in ("token", "replace"):
                    doing = texts.writing
                    draft = event.payload if event.kind == "replace" else draft + event.payload
                elif event.kind == "done":
                    answer = event.payload
                if answer is None and reply.is_due:
                    shown = draft if self.service.is_draft_trusted else ""
                    await reply.show(progress(doing, shown))
        if answer is None:
            raise HpcLlmError(texts.unrecorded)
        return answer

    async def _open_thread(self, ask: Ask, texts: Texts, resumed: bool) -> str:
        """Show a command's question in its channel; empty where the bot may not write there."""
        if resumed:
            lines = await threads.read_thread(self.outbox, ask, "", self.identity.user)
            for line in lines:
                if (line.about.get("key"), line.about.get("state")) == (ask.key, "asked"):
                    return line.ts
        shown = opening(ask, plain_text(ask.text, self.identity.user), texts)
        shown = Message(shown.text, shown.blocks, {**shown.about, "key": ask.key})
        try:
            return await self.outbox.post(ask.channel, "", shown)
        except SlackError as exc:
            if exc.code not in NOT_HERE or not ask.response_url:
                raise
            return ""

    async def _tell_staff_again(
        self, ask: Ask, thread: str, rules: ChannelRules, lines: Sequence[Line]
    ) -> None:
        """Tell staff of a gap where the bot was killed between the answer and that."""
        if rules.notify_staff != "always":
            return
        for line in lines:
            receipt = str(line.about.get("receipt") or "")
            if line.about.get("key") == ask.key and line.about.get("part") == 0 and receipt:
                await self.staff.tell(receipt, ask.channel, ask.user, thread, if_abstained=True)

    def _texts(self, rules: ChannelRules, question: str) -> Texts:
        if rules.language != "auto":
            return texts_in(rules.language)
        return texts_in(detect_language(question, self.language))
