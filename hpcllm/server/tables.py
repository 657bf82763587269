"""The tables of the database, as the newest migration leaves them.

Role: only the store and its statistics read and write them. A change here needs a migration under
``migrations/versions`` (a test compares the two).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, ForeignKey, Index, MetaData, String, Text, UniqueConstraint
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.types import TypeDecorator


class UtcDateTime(TypeDecorator[datetime]):
    """An aware time in UTC; stored without zone, since SQLite keeps none."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse naive times, which could mean anything."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"times must be aware, got {value.isoformat()} without a zone")
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Give the zone back."""
        return None if value is None else value.replace(tzinfo=UTC)


class Base(DeclarativeBase):
    """Base of all tables; constraint names are fixed so that migrations can name them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {datetime: UtcDateTime, dict[str, Any]: JSON, list[Any]: JSON}  # noqa: RUF012


class ConversationRow(Base):
    """See :class:`hpcllm.server.stored.Conversation`."""

    __tablename__ = "conversations"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    channel: Mapped[str] = mapped_column(String(16))
    owner: Mapped[str] = mapped_column(String(200), default="")
    external_id: Mapped[str | None] = mapped_column(String(200))
    cluster: Mapped[str | None] = mapped_column(String(100))
    title: Mapped[str] = mapped_column(String(200), default="")
    created: Mapped[datetime]
    updated: Mapped[datetime]

    __table_args__ = (
        UniqueConstraint("channel", "external_id"),  # several NULLs do not collide
        Index(None, "owner", "channel", "updated"),
    )


class AnswerRow(Base):
    """See :class:`hpcllm.server.stored.StoredAnswer`."""

    __tablename__ = "answers"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    conversation_id: Mapped[str | None] = mapped_column(
        ForeignKey("conversations.id", ondelete="CASCADE"), index=True
    )
    channel: Mapped[str] = mapped_column(String(16))
    cluster: Mapped[str | None] = mapped_column(String(100))
    question: Mapped[str] = mapped_column(Text)
    standalone_question: Mapped[str] = mapped_column(Text)
    text: Mapped[str] = mapped_column(Text)
    abstained: Mapped[bool]
    fallback: Mapped[str] = mapped_column(Text)
    model: Mapped[str] = mapped_column(String(200))
    generation: Mapped[str] = mapped_column(String(100))
    receipt: Mapped[dict[str, Any]]
    citations: Mapped[list[Any]]
    checks: Mapped[list[Any]]
    passages: Mapped[list[Any]]
    timings_ms: Mapped[dict[str, Any]]
    tokens: Mapped[dict[str, Any]]
    created: Mapped[datetime] = mapped_column(index=True)

    feedback: Mapped[list[FeedbackRow]] = relationship(
        order_by="FeedbackRow.created.desc()", viewonly=True
    )


class MessageRow(Base):
    """See :class:`hpcllm.server.stored.StoredMessage`."""

    __tablename__ = "messages"

    conversation_id: Mapped[str] = mapped_column(
        ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True
    )
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    role: Mapped[str] = mapped_column(String(16))
    text: Mapped[str] = mapped_column(Text)
    answer_id: Mapped[str | None] = mapped_column(ForeignKey("answers.id", ondelete="SET NULL"))
    created: Mapped[datetime]


class CitationRow(Base):
    """One page cited by one answer, for counting; the answer's own list has the details."""

    __tablename__ = "citations"

    answer_id: Mapped[str] = mapped_column(
        ForeignKey("answers.id", ondelete="CASCADE"), primary_key=True
    )
    source: Mapped[str] = mapped_column(String(200), primary_key=True)
    path: Mapped[str] = mapped_column(String(1000), primary_key=True)
    title: Mapped[str] = mapped_column(Text)
    url: Mapped[str | None] = mapped_column(Text)

    __table_args__ = (Index(None, "source", "path"),)


class FeedbackRow(Base):
    """See :class:`hpcllm.server.stored.Feedback`."""

    __tablename__ = "feedback"

    answer_id: Mapped[str] = mapped_column(
        ForeignKey("answers.id", ondelete="CASCADE"), primary_key=True
    )
    author: Mapped[str] = mapped_column(String(200), primary_key=True)
    rating: Mapped[str] = mapped_column(String(8))
    reason: Mapped[str] = mapped_column(String(32))
    comment: Mapped[str] = mapped_column(Text)
    created: Mapped[datetime] = mapped_column(index=True)


class GapRow(Base):
    """See :class:`hpcllm.server.stored.Gap`."""

    __tablename__ = "gaps"

    id: Mapped[int] = mapped_column(primary_key=True)
    answer_id: Mapped[str] = mapped_column(
        ForeignKey("answers.id", ondelete="CASCADE"), unique=True
    )
    kind: Mapped[str] = mapped_column(String(16))
    state: Mapped[str] = mapped_column(String(16))
    note: Mapped[str] = mapped_column(Text, default="")
    created: Mapped[datetime]

    answer: Mapped[AnswerRow] = relationship(viewonly=True)

    __table_args__ = (Index(None, "state", "created"),)


class DeliveryRow(Base):
    """See :class:`hpcllm.server.stored.Delivery`."""

    __tablename__ = "deliveries"

    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    payload: Mapped[dict[str, Any]]
    is_done: Mapped[bool] = mapped_column(default=False)
    created: Mapped[datetime]

    __table_args__ = (Index(None, "is_done", "created"),)
