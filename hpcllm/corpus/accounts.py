"""What became of each source: the records that ingest fills and reports show.

Role: data only, kept as JSON beside the index.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpcllm.corpus.findings import Finding
    from hpcllm.records import Chunk, Document


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not read, and why."""

    source: str
    path: str
    reason: str


@dataclass
class SourceReport:
    """What became of one source.

    Attributes:
        name: the source's name.
        kind: folder, git, man, web or tickets.
        licence: its terms of use as far as the list of sources says.
        revision: commit, where it has one.
        documents: pages read.
        words: words of these pages.
        chunks: chunks they were cut into.
        skipped: files left out, each with its reason.
        warnings: what could not be done, ``path: text`` each.
        statuses: pages by status other than ``current``.
        findings: what somebody should look at, the gravest kinds first.
    """

    name: str
    kind: str = "folder"
    licence: str = ""
    revision: str = ""
    documents: int = 0
    words: int = 0
    chunks: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return asdict(self)

    def count(self, document: Document, chunks: list[Chunk]) -> None:
        """Add one page to the numbers."""
        self.documents += 1
        self.words += len(document.text.split())
        self.chunks += len(chunks)
        if document.status != "current":
            self.statuses[document.status] = self.statuses.get(document.status, 0) + 1


@dataclass
class Corpus:
    """Everything that was read.

    Attributes:
        documents: pages in the order of sources and paths.
        chunks: their chunks in reading order.
        reports: one a source, in order.
    """

    documents: list[Document] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    reports: list[SourceReport] = field(default_factory=list)
