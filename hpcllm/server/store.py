"""Conversations, answers with their receipts, feedback and gaps in one SQL database.

Role: everything that outlives a request. Texts are redacted before they are written: secrets from
all of them, personal data from what users wrote. Synchronous and thread-safe; asynchronous callers
use ``asyncio.to_thread``. Counting is in :mod:`hpcllm.server.statistics` (``store.statistics``).
"""

from __future__ import annotations

import secrets
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import selectinload

from hpcllm.errors import HpcLlmError
from hpcllm.records import Turn
from hpcllm.server.database import open_engine, reading, writing
from hpcllm.server.store_rows import (
    answer_of,
    answer_row,
    append_messages,
    citation_rows,
    conversation_of,
    feedback_of,
    found_answer,
    gap_of,
    gap_row,
    keep_gap,
    message_of,
    own_conversation,
    redacted,
    refuse_long,
    refuse_other,
    utc_now,
)
from hpcllm.server.stored import (
    CHANNELS,
    GAP_STATES,
    RATINGS,
    REASONS,
    Conversation,
    Delivery,
    Feedback,
    Gap,
    StoredAnswer,
    StoredMessage,
)
from hpcllm.server.tables import (
    AnswerRow,
    ConversationRow,
    DeliveryRow,
    FeedbackRow,
    GapRow,
    MessageRow,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from pathlib import Path

    from sqlalchemy import Engine

    from hpcllm.records import Answer
    from hpcllm.server.statistics import Statistics

HISTORY_MESSAGES = 12
"""Latest messages of a conversation that an answer is given as history."""
COMMENT_CHARACTERS = 4000
"""Longest comment on an answer; the rest is cut."""


class Store:
    """The database; :meth:`open` makes one.

    Args:
        engine: a SQLAlchemy engine whose database has the newest tables.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @classmethod
    def open(cls, database: Path | str) -> Store:
        """Open a database, making it or bringing its tables up to date first.

        Args:
            database: file of a SQLite database (its folder is made), or a SQLAlchemy URL.

        Raises:
            StoreError: it cannot be opened, is damaged, or was written by a newer version.
        """
        return cls(open_engine(database))

    @cached_property
    def statistics(self) -> Statistics:
        """Counts and rankings for staff."""
        from hpcllm.server.statistics import Statistics

        return Statistics(self.engine)

    def ping(self) -> None:
        """Read something.

        Raises:
            StoreError: the database does not work.
        """
        with reading(self.engine) as session:
            session.execute(select(1))

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Conversations

    def start_conversation(
        self,
        channel: str,
        *,
        owner: str = "",
        external_id: str = "",
        cluster: str | None = None,
    ) -> Conversation:
        """Begin a conversation, or return the one that has this ``external_id``.

        Args:
            channel: one of :data:`~hpcllm.server.stored.CHANNELS`.
            owner: who holds it, as the channel names them.
            external_id: the channel's own id, such as ``C123/1700000000.1``; empty for none.
            cluster: cluster chosen for it.

        Raises:
            HpcLlmError: the channel is unknown, or a name too long.
        """
        refuse_other("channel", channel, CHANNELS)
        refuse_long(owner=owner, external_id=external_id)
        now = utc_now()
        row = ConversationRow(
            id=secrets.token_hex(16),
            channel=channel,
            owner=owner,
            external_id=external_id or None,
            cluster=cluster,
            title="",
            created=now,
            updated=now,
        )
        try:
            with writing(self.engine) as session:
                session.add(row)
                session.flush()
                return conversation_of(row)
        except IntegrityError:
            found = self.find_conversation(channel, external_id)
            if found is None:
                raise
            return found

    def find_conversation(self, channel: str, external_id: str) -> Conversation | None:
        """Return the conversation with the channel's own id, or None."""
        with reading(self.engine) as session:
            row = session.scalar(
                select(ConversationRow).filter_by(channel=channel, external_id=external_id)
            )
            return conversation_of(row) if row else None

    def conversation(self, conversation_id: str, *, owner: str | None = None) -> Conversation:
        """Return a conversation.

        Args:
            conversation_id: its id.
            owner: who asks; None does not ask whose it is.

        Raises:
            NotFoundError: there is none, or it belongs to somebody else.
        """
        with reading(self.engine) as session:
            return conversation_of(own_conversation(session, conversation_id, owner))

    def conversations(
        self, owner: str, *, channel: str = "web", limit: int = 50, offset: int = 0
    ) -> list[Conversation]:
        """Return one owner's conversations that hold messages, latest first."""
        query = (
            select(ConversationRow)
            .where(ConversationRow.owner == owner, ConversationRow.channel == channel)
            .where(ConversationRow.title != "")
            .order_by(ConversationRow.updated.desc(), ConversationRow.id)
        )
        with reading(self.engine) as session:
            return [
                conversation_of(row) for row in session.scalars(query.limit(limit).offset(offset))
            ]

    def set_cluster(self, conversation_id: str, cluster: str | None) -> None:
        """Choose another cluster for a conversation.

        Raises:
            NotFoundError: there is no such conversation.
        """
        with writing(self.engine) as session:
            own_conversation(session, conversation_id, None).cluster = cluster

    def delete_conversation(self, conversation_id: str, *, owner: str | None = None) -> None:
        """Delete a conversation with its messages, answers, feedback and gaps.

        Raises:
            NotFoundError: there is none, or it belongs to somebody else.
        """
        with writing(self.engine) as session:
            session.delete(own_conversation(session, conversation_id, owner))

    def messages(self, conversation_id: str, *, owner: str | None = None) -> list[StoredMessage]:
        """Return the messages of a conversation, oldest first.

        Raises:
            NotFoundError: there is no such conversation, or it belongs to somebody else.
        """
        with reading(self.engine) as session:
            own_conversation(session, conversation_id, owner)
            query = (
                select(MessageRow)
                .filter_by(conversation_id=conversation_id)
                .order_by(MessageRow.position)
            )
            return [message_of(row) for row in session.scalars(query)]

    def history(self, conversation_id: str, *, limit: int = HISTORY_MESSAGES) -> tuple[Turn, ...]:
        """Return the latest messages as an assistant takes them, oldest first.

        Raises:
            NotFoundError: there is no such conversation.
        """
        messages = self.messages(conversation_id)[-limit:] if limit else []
        return tuple(Turn(message.role, message.text) for message in messages)

    def rewind(self, conversation_id: str, keep: int, *, owner: str | None = None) -> None:
        """Drop the messages from position ``keep`` on, to ask again or otherwise.

        The dropped answers stay on record with their receipts and feedback.

        Raises:
            NotFoundError: there is no such conversation, or it belongs to somebody else.
        """
        with writing(self.engine) as session:
            own_conversation(session, conversation_id, owner)
            session.execute(
                delete(MessageRow)
                .where(MessageRow.conversation_id == conversation_id)
                .where(MessageRow.position >= keep)
            )

    # Answers

    def record_answer(
        self,
        answer: Answer,
        *,
        channel: str,
        conversation_id: str | None = None,
        cluster: str | None = None,
    ) -> StoredAnswer:
        """Write an answer with its receipt, and a gap where it abstained, in one transaction.

        Args:
            answer: a finished answer with a receipt.
            channel: where it was asked.
            conversation_id: conversation that question and answer are appended to, or None.
            cluster: cluster that was chosen, or None.

        Raises:
            HpcLlmError: the answer has no receipt, or the channel is unknown.
            NotFoundError: there is no such conversation.
        """
        refuse_other("channel", channel, CHANNELS)
        row = answer_row(answer, channel, conversation_id, cluster)
        with writing(self.engine) as session:
            conversation = (
                own_conversation(session, conversation_id, None) if conversation_id else None
            )
            session.add(row)
            session.flush()
            session.add_all(citation_rows(row.id, answer.citations))
            if conversation:
                append_messages(session, conversation, row)
            if answer.abstained:
                session.add(gap_row(row.id, "unanswered"))
            session.flush()
            return answer_of(row)

    def answer(self, receipt_id: str) -> StoredAnswer:
        """Return a recorded answer.

        Raises:
            NotFoundError: there is none.
        """
        with reading(self.engine) as session:
            return answer_of(found_answer(session, receipt_id))

    def answers(self, *, limit: int = 100, offset: int = 0) -> list[StoredAnswer]:
        """Return recorded answers, latest first."""
        query = select(AnswerRow).order_by(AnswerRow.created.desc(), AnswerRow.id)
        with reading(self.engine) as session:
            return [answer_of(row) for row in session.scalars(query.limit(limit).offset(offset))]

    # Feedback and gaps

    def give_feedback(
        self, receipt_id: str, rating: str, *, reason: str = "", comment: str = "", author: str = ""
    ) -> Feedback:
        """Record what somebody thinks of an answer; it replaces what they said before.

        A vote down opens a gap; changing the last such vote to up closes it again.

        Args:
            receipt_id: id of the answer's receipt.
            rating: ``up`` or ``down``.
            reason: one of :data:`~hpcllm.server.stored.REASONS`.
            comment: free text.
            author: who, as the channel names them; anonymous votes share one place per answer.

        Raises:
            NotFoundError: there is no such answer.
            HpcLlmError: rating or reason is none of the known ones.
        """
        refuse_other("rating", rating, RATINGS)
        refuse_other("reason", reason, REASONS)
        refuse_long(author=author)
        with writing(self.engine) as session:
            found_answer(session, receipt_id)
            row = session.get(FeedbackRow, (receipt_id, author))
            if row is None:
                row = FeedbackRow(answer_id=receipt_id, author=author)
                session.add(row)
            row.rating, row.reason = rating, reason
            row.comment = redacted(comment[:COMMENT_CHARACTERS], personal=True)
            row.created = utc_now()
            session.flush()
            keep_gap(session, receipt_id)
            return feedback_of(row)

    def feedback(self, receipt_id: str) -> list[Feedback]:
        """Return what was said of an answer, latest first."""
        query = select(FeedbackRow).filter_by(answer_id=receipt_id)
        with reading(self.engine) as session:
            rows = session.scalars(query.order_by(FeedbackRow.created.desc()))
            return [feedback_of(row) for row in rows]

    def gaps(
        self,
        *,
        kind: str | None = None,
        state: str | None = "open",
        since: datetime | None = None,
        limit: int = 1000,
        offset: int = 0,
    ) -> list[Gap]:
        """Return questions without an answer and those voted down, latest first.

        Args:
            kind: ``unanswered`` or ``voted_down``; None for both.
            state: one of :data:`~hpcllm.server.stored.GAP_STATES`; None for all.
            since: earliest time, aware.
            limit: most gaps.
            offset: gaps to skip.
        """
        query = select(GapRow).options(selectinload(GapRow.answer).selectinload(AnswerRow.feedback))
        if kind is not None:
            query = query.where(GapRow.kind == kind)
        if state is not None:
            query = query.where(GapRow.state == state)
        if since is not None:
            query = query.where(GapRow.created >= since)
        query = query.order_by(GapRow.created.desc(), GapRow.id.desc())
        with reading(self.engine) as session:
            return [gap_of(row) for row in session.scalars(query.limit(limit).offset(offset))]

    def settle_gaps(self, gap_ids: Iterable[int], state: str, *, note: str = "") -> int:
        """Say what was made of gaps.

        Args:
            gap_ids: their numbers; unknown ones are left out.
            state: one of :data:`~hpcllm.server.stored.GAP_STATES`.
            note: what to remember.

        Returns:
            How many there were.

        Raises:
            HpcLlmError: the state is none of the known ones.
        """
        refuse_other("state", state, GAP_STATES)
        with writing(self.engine) as session:
            rows = list(session.scalars(select(GapRow).where(GapRow.id.in_(list(gap_ids)))))
            for row in rows:
                row.state, row.note = state, redacted(note, personal=True)
            return len(rows)

    # Events from outside, handled once

    def claim(self, key: str, payload: dict[str, Any]) -> bool:
        """Take on an event; False where somebody has taken it on before.

        Args:
            key: the sender's id with the channel in front, such as ``slack:Ev123``.
            payload: what is needed to handle it after a restart; not redacted, deleted by
                :meth:`finish`.

        Raises:
            HpcLlmError: the key is empty or too long.
        """
        if not key:
            raise HpcLlmError("key must name the event, got an empty text")
        refuse_long(key=key)
        try:
            with writing(self.engine) as session:
                session.add(DeliveryRow(key=key, payload=payload, is_done=False, created=utc_now()))
        except IntegrityError:
            return False
        return True

    def finish(self, key: str) -> None:
        """Note that an event was handled and forget its payload; its key stays taken."""
        with writing(self.engine) as session:
            row = session.get(DeliveryRow, key)
            if row is not None:
                row.is_done, row.payload = True, {}

    def unfinished(self, prefix: str) -> list[Delivery]:
        """Return events that were taken on and not finished, oldest first.

        Args:
            prefix: start of their keys, such as ``slack:``.
        """
        query = (
            select(DeliveryRow)
            .where(DeliveryRow.is_done.is_(False))
            .where(DeliveryRow.key.startswith(prefix, autoescape=True))
            .order_by(DeliveryRow.created, DeliveryRow.key)
        )
        with reading(self.engine) as session:
            return [Delivery(row.key, row.payload, row.created) for row in session.scalars(query)]

    def forget_finished(self, prefix: str, *, before: datetime) -> int:
        """Delete the keys of handled events that came earlier; return how many.

        Args:
            prefix: start of their keys, such as ``slack``.
            before: aware time; unfinished events stay, however old.
        """
        old = (
            delete(DeliveryRow)
            .where(DeliveryRow.is_done.is_(True), DeliveryRow.created < before)
            .where(DeliveryRow.key.startswith(prefix, autoescape=True))
            .returning(DeliveryRow.key)
        )
        with writing(self.engine) as session:
            return len(session.scalars(old).all())

    def forget(self, *, days: int) -> int:
        """Delete conversations, answers and event keys older than ``days``; return the answers."""
        before = utc_now() - timedelta(days=days)
        with writing(self.engine) as session:
            session.execute(delete(DeliveryRow).where(DeliveryRow.created < before))
            old = list(session.scalars(select(AnswerRow.id).where(AnswerRow.created < before)))
            session.execute(delete(AnswerRow).where(AnswerRow.created < before))
            session.execute(delete(ConversationRow).where(ConversationRow.updated < before))
            return len(old)
