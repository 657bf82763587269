"""What the database gives back: frozen records, detached from it.

Role: the vocabulary between the store and the pages, the bot and the HTTP interfaces. All times
are in UTC and aware.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from hpcllm.records import short

Channel = Literal["web", "slack", "api", "openai"]
"""Where a question came from."""
Rating = Literal["up", "down"]
Reason = Literal["", "wrong", "incomplete", "outdated", "wrong_cluster", "other"]
"""Why an answer was voted down."""
GapKind = Literal["unanswered", "voted_down"]
GapState = Literal["open", "written", "question_made", "dismissed"]
"""What staff made of a gap: nothing yet, a page, an evaluation question, or nothing."""

CHANNELS: tuple[str, ...] = get_args(Channel)
RATINGS: tuple[str, ...] = get_args(Rating)
REASONS: tuple[str, ...] = get_args(Reason)
GAP_STATES: tuple[str, ...] = get_args(GapState)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation; its messages are fetched apart.

    Attributes:
        id: 32 hex digits, not guessable: who knows it may read and go on with it.
        channel: where it is held.
        owner: who holds it, as the channel names them (opaque, may be empty).
        external_id: the channel's own id of it, such as a Slack thread, or empty.
        cluster: cluster chosen for it, or None.
        title: its first question, shortened and redacted; empty before that.
        created: when it began.
        updated: when its last message came.
    """

    id: str
    channel: str
    owner: str
    external_id: str
    cluster: str | None
    title: str
    created: datetime
    updated: datetime


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message of a conversation.

    Attributes:
        position: ordinal in the conversation, from 0.
        role: who spoke.
        text: redacted text.
        receipt_id: id of the answer's receipt where the assistant spoke, else None.
        created: when it was written.
    """

    position: int
    role: Literal["user", "assistant"]
    text: str
    receipt_id: str | None
    created: datetime

    def __repr__(self) -> str:
        return f"StoredMessage({self.position}, {self.role}, {short(self.text)!r})"


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """A recorded answer with its receipt.

    Attributes:
        receipt_id: 16 hex digits; the answer's address for feedback and sharing.
        conversation_id: its conversation, or None where the caller keeps the history.
        channel: where it was asked.
        cluster: cluster that was chosen, or None.
        question: redacted question as asked.
        standalone_question: redacted question as searched for.
        text: answer in Markdown, secrets redacted.
        abstained: whether the documentation was found not to say.
        fallback: why the extractive answer stood in, or empty.
        model: what wrote it.
        generation: index generation it was written from.
        receipt: the whole receipt, in the form of ``Answer.to_json()["receipt"]``.
        citations: in the form of ``Citation.to_json``.
        checks: ``{"name", "passed", "detail"}`` each.
        passages: what retrieval gave, best first: rank, score, source, path, title, url, headings.
        timings_ms: milliseconds by stage.
        tokens: ``prompt`` and ``generated``.
        created: when it was finished.
    """

    receipt_id: str
    conversation_id: str | None
    channel: str
    cluster: str | None
    question: str
    standalone_question: str
    text: str
    abstained: bool
    fallback: str
    model: str
    generation: str
    receipt: dict[str, Any]
    citations: list[dict[str, Any]]
    checks: list[dict[str, Any]]
    passages: list[dict[str, Any]]
    timings_ms: dict[str, float]
    tokens: dict[str, int]
    created: datetime

    def __repr__(self) -> str:
        return f"StoredAnswer({self.receipt_id}, {self.model}, {short(self.question)!r})"


@dataclass(frozen=True, slots=True)
class Feedback:
    """One person's judgement of one answer; a later one replaces it.

    Attributes:
        receipt_id: the answer judged.
        rating: ``up`` or ``down``.
        reason: why, or empty.
        comment: redacted text, or empty.
        author: who, as the channel names them (opaque, may be empty).
        created: when it was given or last changed.
    """

    receipt_id: str
    rating: str
    reason: str
    comment: str
    author: str
    created: datetime


@dataclass(frozen=True, slots=True)
class Gap:
    """A question that the documentation did not answer, or whose answer was voted down.

    Attributes:
        id: number.
        kind: ``unanswered`` or ``voted_down``.
        state: what staff made of it.
        note: what staff wrote on it.
        answer: the answer, its question and nearest pages included.
        feedback: down votes on it, newest first.
        created: when it came up.
    """

    id: int
    kind: str
    state: str
    note: str
    answer: StoredAnswer
    feedback: tuple[Feedback, ...]
    created: datetime


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts over a span of time.

    Attributes:
        answers: answers given, abstentions included.
        abstained: those that said the documentation does not say.
        fallbacks: those where the extractive answer stood in for a draft.
        up: votes up.
        down: votes down.
        conversations: conversations begun.
        by_reason: votes down by reason, the empty one included.
        by_channel: answers by channel.
        by_model: answers by model.
    """

    answers: int
    abstained: int
    fallbacks: int
    up: int
    down: int
    conversations: int
    by_reason: dict[str, int] = field(default_factory=dict)
    by_channel: dict[str, int] = field(default_factory=dict)
    by_model: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DayCount:
    """What happened on one day (UTC).

    Attributes:
        day: ``YYYY-MM-DD``.
        answers: answers given.
        abstained: those that abstained.
        down: votes down on that day's answers.
    """

    day: str
    answers: int
    abstained: int
    down: int


@dataclass(frozen=True, slots=True)
class PageCount:
    """How often a page was cited.

    Attributes:
        source: name of its source.
        path: its path.
        title: its title when last cited.
        url: its address without anchor, or None.
        citations: answers that cite it, each counted once.
        down: those of them that were voted down.
        last: when it was last cited.
    """

    source: str
    path: str
    title: str
    url: str | None
    citations: int
    down: int
    last: datetime


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event from outside that must be handled once, across restarts.

    Attributes:
        key: the sender's id of it, such as ``slack:Ev123``.
        payload: what is needed to handle it.
        created: when it came.
    """

    key: str
    payload: dict[str, Any]
    created: datetime
