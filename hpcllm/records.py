"""The records that stages hand to one another; nothing else crosses a stage border.

Role: the vocabulary of the whole package. Flow of records::

    sources -> Document -> Chunk -> (index) -> Passage -> (prompt, model) -> Answer[Citation, Check]

All records are frozen. Text is Unicode, paths are POSIX paths relative to their source's root.
"""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Status = Literal["current", "outdated", "decommissioned", "generated"]
"""How far a document is to be trusted: ``generated`` marks machine-made bulk (API references)."""

REPR_LIMIT = 80
"""Characters of a text shown in a record's ``repr``."""


def short(text: str) -> str:
    """Return ``text`` on one line, cut at :data:`REPR_LIMIT` characters with its length."""
    line = " ".join(text.split())
    return line if len(line) <= REPR_LIMIT else f"{line[:REPR_LIMIT]}… ({len(text)} characters)"


def normalise_text(text: str) -> str:
    """Return the form of ``text`` that identity is computed from: NFC, single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def stable_id(source: str, path: str, headings: tuple[str, ...], text: str) -> str:
    """Return the id of a chunk: 32 hex digits over source, path, heading path and text.

    Nothing else enters (no position, no date, no vector), so an unchanged passage keeps its id
    and its embedding wherever it moves within its section.
    """
    parts = [source, path, *headings, normalise_text(text)]
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Document:
    """One page of documentation in the canonical Markdown dialect.

    The dialect (what every reader writes and the chunker reads): ATX headings, each optionally
    followed by ``{#anchor}``; fenced code with its language; pipe tables with a header row;
    definition items as ``term`` lines, each optionally ending in ``{#anchor}``, followed by
    ``: text`` and continuation lines indented by four spaces; lists; paragraphs. No raw HTML, no
    front matter, no template syntax outside code.

    Attributes:
        source: name of the source it came from.
        path: path relative to the source's root, POSIX style.
        title: page title, never empty.
        text: the body in the canonical dialect.
        url: public address of the page without anchor, or None where the source has no base URL.
        language: BCP 47 code such as ``en`` or ``pt``.
        cluster: cluster the page is about, or None for all.
        revision: commit, ETag or content hash of what was read.
        status: how far to trust it.
        notice: a warning to cite with it ("Out of date: …"), or empty.
        metadata: front matter and similar, as text.
        warnings: what the reader could not do, with line where known.
    """

    source: str
    path: str
    title: str
    text: str
    url: str | None = None
    language: str = "en"
    cluster: str | None = None
    revision: str = ""
    status: Status = "current"
    notice: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Document({self.source}:{self.path}, {self.title!r}, {len(self.text)} characters)"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of one document that can be retrieved and cited by itself.

    Attributes:
        id: 32 hex digits, see :func:`stable_id`.
        source: source name.
        path: path of its document.
        title: title of its document.
        headings: heading path from the document's top to this chunk, outermost first.
        anchor: anchor of the innermost heading or entry, or empty.
        text: canonical Markdown; a repeated table header or heading is part of it.
        position: ordinal within the document, from 0.
        tokens: length in tokens of the embedder's tokenizer.
        line: first line in the document's text, from 1.
        url: address of the page with the anchor, or None.
        language: as the document's.
        cluster: as the document's.
        status: as the document's.
        notice: as the document's.
        keywords: further searchable text that is not shown (aliases, tags, description).
    """

    id: str
    source: str
    path: str
    title: str
    headings: tuple[str, ...]
    anchor: str
    text: str
    position: int
    tokens: int
    line: int = 1
    url: str | None = None
    language: str = "en"
    cluster: str | None = None
    status: Status = "current"
    notice: str = ""
    keywords: str = ""

    def __repr__(self) -> str:
        place = " > ".join(self.headings)
        return f"Chunk({self.id[:8]}, {self.path}#{self.position}, {place!r}, {short(self.text)!r})"


@dataclass(frozen=True, slots=True)
class Passage:
    """What retrieval returns: one chunk, or neighbouring chunks of one document merged.

    Attributes:
        rank: 1 for the best.
        score: fused score; comparable within one result only, higher is better.
        similarity: cosine of query and best chunk in [-1, 1]; NaN where only words matched.
        source: source name.
        path: path of the document.
        title: title of the document.
        url: address with anchor, or None.
        headings: heading path, outermost first.
        text: canonical Markdown of the merged chunks in reading order.
        chunk_ids: ids of the chunks it consists of, in reading order.
        language: as the document's.
        cluster: as the document's.
        status: as the document's.
        notice: warning to show with a citation, or empty.
        other_urls: addresses of duplicate pages that were folded into this one.
    """

    rank: int
    score: float
    similarity: float
    source: str
    path: str
    title: str
    url: str | None
    headings: tuple[str, ...]
    text: str
    chunk_ids: tuple[str, ...]
    language: str = "en"
    cluster: str | None = None
    status: Status = "current"
    notice: str = ""
    other_urls: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Passage({self.rank}, {self.score:.4f}, {self.path}, {short(self.text)!r})"

    def to_json(self) -> dict[str, Any]:
        """Return the stable machine-readable form (docs/cli.md, ``hpcllm search --json``)."""
        return {
            "rank": self.rank,
            "score": round(self.score, 6),
            "source": self.source,
            "path": self.path,
            "title": self.title,
            "url": self.url,
            "headings": list(self.headings),
            "text": self.text,
            "status": self.status,
            "notice": self.notice,
        }


@dataclass(frozen=True, slots=True)
class Turn:
    """One earlier message of a conversation.

    Attributes:
        role: who spoke.
        text: what was said.
    """

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Citation:
    """One numbered source of an answer.

    Attributes:
        number: the ``n`` of ``[n]`` in the answer, from 1.
        passage_rank: rank of the passage it points to.
        source: source name.
        path: path of the document.
        title: title of the document.
        url: address with anchor, or None.
        headings: heading path, outermost first.
        quote: lines of the passage that support the answer, as they stand there.
        notice: warning to show ("Out of date: …"), or empty.
        status: as the document's.
    """

    number: int
    passage_rank: int
    source: str
    path: str
    title: str
    url: str | None
    headings: tuple[str, ...]
    quote: str
    notice: str = ""
    status: Status = "current"

    def to_json(self) -> dict[str, Any]:
        """Return the stable machine-readable form (docs/cli.md, ``hpcllm ask --json``)."""
        return {
            "n": self.number,
            "source": self.source,
            "path": self.path,
            "title": self.title,
            "url": self.url,
            "headings": list(self.headings),
            "quote": self.quote,
            "notice": self.notice,
        }


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one check of a draft answer.

    Attributes:
        name: what was checked, such as ``citations`` or ``commands``.
        passed: whether it held.
        detail: one line for a person: what failed, or what was checked.
    """

    name: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that one answer took; zeros for the extractive back end."""

    prompt: int = 0
    generated: int = 0


@dataclass(frozen=True, slots=True)
class Receipt:
    """What produced an answer, so that it can be reproduced and audited.

    Attributes:
        id: 16 hex digits, unique per answer.
        generation: name of the index generation.
        model: catalog id of the model, or ``extractive``.
        model_sha256: hash of the model file, or empty.
        adapter: id of the adapter, or empty.
        prompt_sha256: hash of the rendered prompt, or empty.
        chunk_ids: ids of all chunks the passages consist of.
    """

    id: str
    generation: str
    model: str
    model_sha256: str = ""
    adapter: str = ""
    prompt_sha256: str = ""
    chunk_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished, checked answer.

    Attributes:
        question: the question as asked.
        text: Markdown with ``[n]`` marks; when abstaining, the plain refusal.
        abstained: whether the documentation was found not to say.
        citations: the sources, in order of their numbers.
        checks: what was checked and how it came out.
        passages: what retrieval gave, best first.
        model: catalog id of what wrote the text, or ``extractive``.
        fallback: why the extractive answer replaced a draft, or empty.
        standalone_question: the question as searched for, follow-ups made self-contained.
        timings_ms: milliseconds by stage: ``retrieve``, ``first_token``, ``generate``, ``total``.
        usage: tokens taken.
        receipt: what produced it.
    """

    question: str
    text: str
    abstained: bool
    citations: tuple[Citation, ...]
    checks: tuple[Check, ...]
    passages: tuple[Passage, ...]
    model: str
    fallback: str = ""
    standalone_question: str = ""
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    usage: Usage = Usage()
    receipt: Receipt | None = None

    def __repr__(self) -> str:
        return f"Answer({self.model}, abstained={self.abstained}, {short(self.text)!r})"

    def to_json(self) -> dict[str, Any]:
        """Return the stable machine-readable form (docs/cli.md, ``hpcllm ask --json``)."""
        return {
            "question": self.question,
            "answer": self.text,
            "abstained": self.abstained,
            "citations": [citation.to_json() for citation in self.citations],
            "checks": [asdict(check) for check in self.checks],
            "model": self.model,
            "fallback": self.fallback,
            "timings_ms": {name: round(value, 1) for name, value in self.timings_ms.items()},
            "tokens": asdict(self.usage),
            "receipt": asdict(self.receipt) if self.receipt else None,
        }


@dataclass(frozen=True, slots=True)
class Event:
    """One step of a streamed answer.

    Attributes:
        kind: ``searching``, ``passages`` (payload: tuple of :class:`Passage`), ``token``
            (payload: text to append), ``replace`` (payload: text that replaces all tokens so
            far), ``checks`` (payload: tuple of :class:`Check`), ``done`` (payload: the
            :class:`Answer`, always last).
        payload: see ``kind``.
    """

    kind: Literal["searching", "passages", "token", "replace", "checks", "done"]
    payload: Any = None


@dataclass(frozen=True, slots=True)
class Question:
    """One evaluation question with what a right answer must hold.

    Attributes:
        id: stable id.
        question: as a user asks it.
        answerable: whether the corpus answers it.
        history: earlier turns, oldest first.
        category: subject area.
        kind: how it is asked (keyword, email, error, follow_up, …).
        difficulty: ``easy``, ``medium`` or ``hard``.
        language: language of the question.
        cluster: cluster it is about, or None.
        gold_pages: paths that answer it, best first; any one is a hit.
        gold_facts: strings that a right answer holds, all of them.
        fact_alternatives: other accepted spellings by fact.
        gold_commands: commands that a right answer gives, compared after parsing.
        gold_answer: the answer that good support staff would give.
        split: ``dev`` or ``test``; empty where the set has no split.
    """

    id: str
    question: str
    answerable: bool
    history: tuple[Turn, ...] = ()
    category: str = ""
    kind: str = ""
    difficulty: str = ""
    language: str = "en"
    cluster: str | None = None
    gold_pages: tuple[str, ...] = ()
    gold_facts: tuple[str, ...] = ()
    fact_alternatives: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gold_commands: tuple[str, ...] = ()
    gold_answer: str = ""
    split: str = ""
