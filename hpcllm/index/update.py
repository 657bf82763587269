"""Bring a workspace's index up to date with its sources.

Role: the one function behind ``hpcllm ingest``: sources -> documents and chunks -> next generation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class UpdateReport:
    """What an update did.

    Attributes:
        generation: name of the generation in use afterwards.
        unchanged: whether nothing had to be done.
        documents: pages in the index.
        chunks: chunks in the index.
        embedded: chunks whose vectors were computed.
        reused: chunks whose vectors were taken over.
        removed: chunks of the generation before that are gone.
        folded: chunks that repeat another one and were folded into it.
        seconds: wall time.
        sources: one report a source, see :class:`hpcllm.corpus.ingest.SourceReport`.
    """

    generation: str
    unchanged: bool
    documents: int
    chunks: int
    embedded: int
    reused: int
    removed: int
    folded: int
    seconds: float
    sources: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the stable machine-readable form (docs/cli.md, ``hpcllm ingest --json``)."""
        return {**vars(self), "seconds": round(self.seconds, 3)}
