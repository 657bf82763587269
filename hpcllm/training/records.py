"""What the steps of making a data set hand to one another.

Role: ``Section -> Seed -> Example``. A seed is a question with its answer and where the answer
stands; an example is a seed with the passages that the assistant would have shown.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from hpcllm.corpus.blocks import Block
    from hpcllm.models.backends.base import Message
    from hpcllm.records import Turn

Language = Literal["en", "pt"]

GENERIC_HEADINGS = frozenset(
    {
        "introduction", "overview", "notes", "note", "example", "examples", "usage", "summary",
        "what goes wrong", "see also", "background", "description", "options", "general", "faq",
        "more information", "troubleshooting", "tips", "known issues", "documentation", "links",
        "exemplo", "exemplos", "introdução", "resumo", "veja também", "o que dá errado", "notas",
    }
)  # fmt: skip
"""Headings that name no subject; the page's title stands for them."""


@dataclass(frozen=True, slots=True)
class Section:
    """The blocks of one page under one heading.

    Attributes:
        source: name of the page's source.
        path: path of the page.
        title: title of the page.
        headings: heading path below the title, outermost first.
        blocks: what stands there, headings left out.
        language: language of the page.
        cluster: cluster of the page, or None.
    """

    source: str
    path: str
    title: str
    headings: tuple[str, ...]
    blocks: tuple[Block, ...]
    language: Language = "en"
    cluster: str | None = None

    @property
    def topic(self) -> str:
        """What it is about: the innermost heading that says something, else the title."""
        telling = [name for name in self.headings if name.lower() not in GENERIC_HEADINGS]
        return telling[-1] if telling else self.title


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of an answer, to be cited once.

    Attributes:
        text: prose; may be empty where ``code`` says it all.
        quote: lines of the page that support it, as they stand there.
        code: lines shown as a block below the prose, or empty.
        code_language: language of that block, or empty.
        source: source of the page; empty takes the seed's.
        path: path of the page; empty takes the seed's.
    """

    text: str
    quote: str
    code: str = ""
    code_language: str = ""
    source: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Seed:
    """A question with the answer that good support staff would give, and where it stands.

    Attributes:
        kind: how it was made, such as ``option`` or ``table``.
        source: name of the source.
        path: path of the page.
        question: as a user asks it.
        statements: the answer; empty where the right answer is a refusal.
        language: language of question and answer.
        cluster: cluster of the page, or None.
        history: earlier turns, oldest first.
        topic: heading of the section, for combining seeds.
    """

    kind: str
    source: str
    path: str
    question: str
    statements: tuple[Statement, ...]
    language: Language = "en"
    cluster: str | None = None
    history: tuple[Turn, ...] = ()
    topic: str = ""

    @property
    def id(self) -> str:
        """16 hex digits over source, page, question, history and answer."""
        parts = [self.kind, self.source, self.path, self.question]
        parts += [turn.text for turn in self.history]
        parts += [f"{statement.text}\n{statement.code}" for statement in self.statements]
        return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Example:
    """One line of a data set.

    Attributes:
        id: the seed's id.
        kind: the seed's kind, or the kind of refusal.
        source: the seed's source.
        messages: the prompt, from the assistant's own builder.
        completion: what the model is to write.
        passages: ids of the chunks of each passage shown, by passage.
        metadata: language, page and such.
    """

    id: str
    kind: str
    source: str
    messages: tuple[Message, ...]
    completion: str
    passages: tuple[tuple[str, ...], ...]
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the form of a line of the data file."""
        return {
            "id": self.id,
            "kind": self.kind,
            "source": self.source,
            "messages": [message.to_json() for message in self.messages],
            "completion": self.completion,
            "passages": [list(ids) for ids in self.passages],
            **self.metadata,
        }
