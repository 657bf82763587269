"""Turn records into rows of the database and back.

Role: the store's inner half; redaction happens here, so that nothing is written around it.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import func, select

from hpcllm.corpus.redact import redact
from hpcllm.errors import HpcLlmError, nearest
from hpcllm.records import short
from hpcllm.server.errors import NotFoundError
from hpcllm.server.stored import Conversation, Feedback, Gap, StoredAnswer, StoredMessage
from hpcllm.server.tables import (
    AnswerRow,
    CitationRow,
    ConversationRow,
    FeedbackRow,
    GapRow,
    MessageRow,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy.orm import Session

    from hpcllm.records import Answer, Citation, Passage

NAME_CHARACTERS = 200
"""Longest owner, author, external id and key."""


def utc_now() -> datetime:
    """Return the time, aware."""
    return datetime.now(UTC)


def redacted(text: str, *, personal: bool) -> str:
    """Return ``text`` without secrets and, where ``personal``, without personal data."""
    return redact(text, personal=personal)[0]


def refuse_other(name: str, value: str, known: Sequence[str]) -> None:
    """Raise HpcLlmError where ``value`` is not among the ``known``."""
    if value not in known:
        listed = ", ".join(repr(item) for item in known)
        raise HpcLlmError(f"{name} is {value!r}; expected {listed}{nearest(value, known)}")


def refuse_long(**names: str) -> None:
    """Raise HpcLlmError where a name does not fit its column."""
    for name, value in names.items():
        if len(value) > NAME_CHARACTERS:
            raise HpcLlmError(
                f"{name} has {len(value)} characters, at most {NAME_CHARACTERS} are taken"
            )


def own_conversation(session: Session, conversation_id: str, owner: str | None) -> ConversationRow:
    """Return a conversation's row, or raise NotFoundError where it is somebody else's."""
    row = session.get(ConversationRow, conversation_id)
    if row is None or (owner is not None and row.owner != owner):
        raise NotFoundError(
            f"there is no conversation {conversation_id!r}: begin a new one by leaving it out"
        )
    return row


def found_answer(session: Session, receipt_id: str) -> AnswerRow:
    """Return an answer's row, or raise NotFoundError."""
    row = session.get(AnswerRow, receipt_id)
    if row is None:
        raise NotFoundError(
            f"there is no answer with receipt {receipt_id!r}: take the id that came with an answer"
        )
    return row


def answer_row(
    answer: Answer, channel: str, conversation_id: str | None, cluster: str | None
) -> AnswerRow:
    """Return the row of a finished answer."""
    if answer.receipt is None:
        raise HpcLlmError("an answer without a receipt cannot be recorded: make it by an Assistant")
    return AnswerRow(
        id=answer.receipt.id,
        conversation_id=conversation_id,
        channel=channel,
        cluster=cluster,
        question=redacted(answer.question, personal=True),
        standalone_question=redacted(answer.standalone_question, personal=True),
        text=redacted(answer.text, personal=False),
        abstained=answer.abstained,
        fallback=redacted(answer.fallback, personal=False),
        model=answer.model,
        generation=answer.receipt.generation,
        receipt={**asdict(answer.receipt), "chunk_ids": list(answer.receipt.chunk_ids)},
        citations=[citation.to_json() for citation in answer.citations],
        checks=[asdict(check) for check in answer.checks],
        passages=[_passage(passage) for passage in answer.passages],
        timings_ms={name: round(value, 1) for name, value in answer.timings_ms.items()},
        tokens=asdict(answer.usage),
        created=utc_now(),
    )


def _passage(passage: Passage) -> dict[str, Any]:
    """Return a passage without its text, which the generation holds."""
    return {name: value for name, value in passage.to_json().items() if name != "text"}


def citation_rows(answer_id: str, citations: Iterable[Citation]) -> list[CitationRow]:
    """Return one row for each page cited."""
    pages = {(c.source, c.path): c for c in citations}
    return [
        CitationRow(
            answer_id=answer_id,
            source=citation.source,
            path=citation.path,
            title=citation.title,
            url=citation.url.partition("#")[0] if citation.url else None,
        )
        for citation in pages.values()
    ]


def append_messages(session: Session, conversation: ConversationRow, answer: AnswerRow) -> None:
    """Append a question and its answer to their conversation."""
    last = session.scalar(
        select(func.max(MessageRow.position)).filter_by(conversation_id=conversation.id)
    )
    first = 0 if last is None else last + 1
    said = (("user", answer.question, None), ("assistant", answer.text, answer.id))
    for position, (role, text, answer_id) in enumerate(said, first):
        session.add(
            MessageRow(
                conversation_id=conversation.id,
                position=position,
                role=role,
                text=text,
                answer_id=answer_id,
                created=answer.created,
            )
        )
    conversation.updated = answer.created
    conversation.title = conversation.title or short(answer.question)[:NAME_CHARACTERS]


def gap_row(answer_id: str, kind: str) -> GapRow:
    """Return the row of a new gap."""
    return GapRow(answer_id=answer_id, kind=kind, state="open", note="", created=utc_now())


def keep_gap(session: Session, answer_id: str) -> None:
    """Open a gap where an answer has votes down; drop an open one where it has none any more."""
    down = session.scalar(
        select(func.count()).select_from(FeedbackRow).filter_by(answer_id=answer_id, rating="down")
    )
    row = session.scalar(select(GapRow).filter_by(answer_id=answer_id))
    if down and row is None:
        session.add(gap_row(answer_id, "voted_down"))
    elif not down and row is not None and (row.kind, row.state) == ("voted_down", "open"):
        session.delete(row)


def conversation_of(row: ConversationRow) -> Conversation:
    """Return the record of a row."""
    return Conversation(
        id=row.id,
        channel=row.channel,
        owner=row.owner,
        external_id=row.external_id or "",
        cluster=row.cluster,
        title=row.title,
        created=row.created,
        updated=row.updated,
    )


def message_of(row: MessageRow) -> StoredMessage:
    """Return the record of a row."""
    return StoredMessage(
        position=row.position,
        role=cast("Any", row.role),
        text=row.text,
        receipt_id=row.answer_id,
        created=row.created,
    )


def answer_of(row: AnswerRow) -> StoredAnswer:
    """Return the record of a row."""
    return StoredAnswer(
        receipt_id=row.id,
        conversation_id=row.conversation_id,
        channel=row.channel,
        cluster=row.cluster,
        question=row.question,
        standalone_question=row.standalone_question,
        text=row.text,
        abstained=row.abstained,
        fallback=row.fallback,
        model=row.model,
        generation=row.generation,
        receipt=row.receipt,
        citations=row.citations,
        checks=row.checks,
        passages=row.passages,
        timings_ms=row.timings_ms,
        tokens=row.tokens,
        created=row.created,
    )


def feedback_of(row: FeedbackRow) -> Feedback:
    """Return the record of a row."""
    return Feedback(
        receipt_id=row.answer_id,
        rating=row.rating,
        reason=row.reason,
        comment=row.comment,
        author=row.author,
        created=row.created,
    )


def gap_of(row: GapRow) -> Gap:
    """Return the record of a row with its answer and the votes down on it."""
    return Gap(
        id=row.id,
        kind=row.kind,
        state=row.state,
        note=row.note,
        answer=answer_of(row.answer),
        feedback=tuple(feedback_of(f) for f in row.answer.feedback if f.rating == "down"),
        created=row.created,
    )
