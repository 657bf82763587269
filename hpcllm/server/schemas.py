"""Bodies of the native interface: validated requests, described responses.

Role: the contract of docs and clients. Requests are strict: no value is converted, no unknown
field taken. Responses are written from records and only described here (tests compare the two).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hpcllm.assistant.assistant import QUESTION_CHARACTERS
from hpcllm.records import Status, Turn
from hpcllm.server.store import COMMENT_CHARACTERS
from hpcllm.server.stored import Rating, Reason

TURNS = 100
"""Most turns of a history that is sent along."""


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty: ask something, such as 'how do I run a job?'")
    return text


QuestionText = Annotated[
    str, Field(min_length=1, max_length=QUESTION_CHARACTERS), AfterValidator(_not_blank)
]
ClusterName = Annotated[str, Field(min_length=1, max_length=100)]
ScopeName = Annotated[str, Field(min_length=1, max_length=100, examples=["tickets"])]
SCOPES = 20
"""Most scopes of one request."""
ReceiptId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$", examples=["4f0c2a9be1d37a55"])]
ConversationId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class Strict(BaseModel):
    """Base of requests."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Described(BaseModel):
    """Base of responses."""

    model_config = ConfigDict(extra="forbid")


class TurnIn(Strict):
    """One earlier message."""

    role: Literal["user", "assistant"]
    text: str = Field(max_length=QUESTION_CHARACTERS)

    def turn(self) -> Turn:
        """Return the record."""
        return Turn(self.role, self.text)


class AskIn(Strict):
    """A question."""

    question: QuestionText
    """What to answer."""
    cluster: ClusterName | None = None
    """Cluster that it is about; leave it out to take the one that the question names."""
    scopes: list[ScopeName] = Field(default=[], max_length=SCOPES)
    """What to search besides documentation, where the index holds it, such as `tickets`."""
    history: list[TurnIn] = Field(default=[], max_length=TURNS)
    """Earlier turns, oldest first, where you keep them yourself."""
    conversation_id: ConversationId | None = None
    """A conversation that the server keeps, instead of `history`."""
    remember: bool = False
    """Begin a conversation that the server keeps; its id comes with the answer."""
    stream: bool = False
    """Answer with server-sent events (the same as asking for `text/event-stream`)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"question": "How do I request two A100 GPUs for 12 hours?"},
                {
                    "question": "And on the other cluster?",
                    "history": [
                        {"role": "user", "text": "What is the home quota on meridian?"},
                        {"role": "assistant", "text": "50 GB [1]."},
                    ],
                    "stream": True,
                },
            ]
        }
    )


class FeedbackIn(Strict):
    """What you think of an answer; it replaces what you said of it before."""

    receipt_id: ReceiptId
    rating: Rating
    reason: Reason = ""
    comment: str = Field("", max_length=COMMENT_CHARACTERS)

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "receipt_id": "4f0c2a9be1d37a55",
                    "rating": "down",
                    "reason": "outdated",
                    "comment": "The gpu partition was renamed in May.",
                }
            ]
        }
    )


class CitationOut(Described):
    """A numbered source."""

    n: int
    source: str
    path: str
    title: str
    url: str | None
    headings: list[str]
    quote: str
    notice: str


class CheckOut(Described):
    """The outcome of a check."""

    name: str
    passed: bool
    detail: str


class TokensOut(Described):
    """Tokens taken; zeros where no model wrote."""

    prompt: int
    generated: int


class ReceiptOut(Described):
    """What produced an answer."""

    id: str
    generation: str
    model: str
    model_sha256: str
    adapter: str
    prompt_sha256: str
    chunk_ids: list[str]


class AnswerOut(Described):
    """A checked answer."""

    question: str
    answer: str
    abstained: bool
    citations: list[CitationOut]
    checks: list[CheckOut]
    model: str
    fallback: str
    timings_ms: dict[str, float]
    tokens: TokensOut
    receipt: ReceiptOut
    conversation_id: str | None


class EventOut(Described):
    """One server-sent event; `data` is JSON.

    In order: `searching` {}, `passages` {passages}, then any number of `token` {text} and
    `replace` {text} (which replaces all text so far), `checks` {checks}, `done` (the answer as
    JSON). `error` {error} ends a stream early.
    """

    event: Literal["searching", "passages", "token", "replace", "checks", "done", "error"]
    data: Annotated[
        str, Field(json_schema_extra={"contentMediaType": "application/json"}, examples=["{}"])
    ]


class PassageOut(Described):
    """A passage of the documentation."""

    rank: int
    score: float
    source: str
    path: str
    title: str
    url: str | None
    headings: list[str]
    text: str
    status: Status
    notice: str


class SearchOut(Described):
    """Passages found, best first."""

    query: str
    passages: list[PassageOut]


class PlaceOut(Described):
    """A passage without its text."""

    rank: int
    score: float
    source: str
    path: str
    title: str
    url: str | None
    headings: list[str]
    status: Status
    notice: str


class RecordedOut(Described):
    """A recorded answer; what users wrote is redacted."""

    receipt: ReceiptOut
    conversation_id: str | None
    channel: str
    cluster: str | None
    question: str
    standalone_question: str
    answer: str
    abstained: bool
    fallback: str
    citations: list[CitationOut]
    checks: list[CheckOut]
    passages: list[PlaceOut]
    timings_ms: dict[str, float]
    tokens: TokensOut
    created: str


class FeedbackOut(Described):
    """Feedback as it was recorded."""

    receipt_id: str
    rating: Rating
    reason: Reason
    comment: str
    created: str


class HealthOut(Described):
    """How the server is."""

    status: Literal["ok", "degraded", "failing"]
    """`degraded`: it answers, but staff should look at `problems`."""
    version: str
    generation: str
    model: str
    running: int
    waiting: int
    problems: list[str]
    """Short names; the log has the details."""


class ErrorDetail(Described):
    """What was wrong."""

    message: str
    type: str
    param: str | None
    code: str


class ErrorOut(Described):
    """An error, in the form that OpenAI-compatible clients read."""

    error: ErrorDetail
