"""Counts and rankings over the store, for the staff page.

Role: reads only. All spans begin at ``since`` (aware) and end now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import case, distinct, func, select

from hpcllm.server.database import reading
from hpcllm.server.stored import DayCount, PageCount, Totals
from hpcllm.server.tables import AnswerRow, CitationRow, ConversationRow, FeedbackRow

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Engine
    from sqlalchemy.orm import Session


class Statistics:
    """What staff want to know of a store.

    Args:
        engine: the store's.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def totals(self, since: datetime) -> Totals:
        """Count answers, votes and conversations."""
        recent = AnswerRow.created >= since
        with reading(self._engine) as session:
            answers, abstained, fallbacks = session.execute(
                select(
                    func.count(),
                    func.coalesce(func.sum(case((AnswerRow.abstained, 1), else_=0)), 0),
                    func.coalesce(func.sum(case((AnswerRow.fallback != "", 1), else_=0)), 0),
                ).where(recent)
            ).one()
            votes = _counts(session, FeedbackRow.rating, FeedbackRow.created >= since)
            down = (FeedbackRow.created >= since) & (FeedbackRow.rating == "down")
            begun = (ConversationRow.created >= since) & (ConversationRow.title != "")
            return Totals(
                answers=answers,
                abstained=int(abstained),
                fallbacks=int(fallbacks),
                up=votes.get("up", 0),
                down=votes.get("down", 0),
                conversations=session.scalar(select(func.count()).where(begun)) or 0,
                by_reason=_counts(session, FeedbackRow.reason, down),
                by_channel=_counts(session, AnswerRow.channel, recent),
                by_model=_counts(session, AnswerRow.model, recent),
            )

    def daily(self, since: datetime) -> list[DayCount]:
        """Count by day (UTC), oldest first; days without an answer are left out."""
        day = func.date(AnswerRow.created)
        voted_down = _voted_down()
        query = (
            select(
                day,
                func.count(),
                func.sum(case((AnswerRow.abstained, 1), else_=0)),
                func.count(voted_down.c.answer_id),
            )
            .outerjoin(voted_down, voted_down.c.answer_id == AnswerRow.id)
            .where(AnswerRow.created >= since)
            .group_by(day)
            .order_by(day)
        )
        with reading(self._engine) as session:
            rows = session.execute(query)
            return [DayCount(str(d), n, int(abstained), down) for d, n, abstained, down in rows]

    def cited_pages(self, since: datetime, *, limit: int = 100) -> list[PageCount]:
        """Count how often pages were cited, most cited first.

        The pages that an abstention names as nearest do not count: they answered nothing.
        """
        voted_down = _voted_down()
        citations = func.count(distinct(CitationRow.answer_id))
        query = (
            select(
                CitationRow.source,
                CitationRow.path,
                func.max(CitationRow.title),
                func.max(CitationRow.url),
                citations,
                func.count(voted_down.c.answer_id),
                func.max(AnswerRow.created, type_=AnswerRow.created.type),
            )
            .join(AnswerRow, AnswerRow.id == CitationRow.answer_id)
            .outerjoin(voted_down, voted_down.c.answer_id == CitationRow.answer_id)
            .where(AnswerRow.created >= since, AnswerRow.abstained.is_(False))
            .group_by(CitationRow.source, CitationRow.path)
            .order_by(citations.desc(), CitationRow.source, CitationRow.path)
            .limit(limit)
        )
        with reading(self._engine) as session:
            return [PageCount(*row) for row in session.execute(query)]


def _voted_down() -> Any:
    """Return the answers with at least one vote down, each once."""
    return select(FeedbackRow.answer_id).filter_by(rating="down").distinct().subquery()


def _counts(session: Session, column: Any, condition: Any) -> dict[str, int]:
    rows = session.execute(select(column, func.count()).where(condition).group_by(column))
    return {name: count for name, count in rows}  # noqa: C416 -- rows are no pairs to mypy
