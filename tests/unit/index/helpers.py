"""Small documents and chunks for tests of the index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcllm.records import Chunk, Document, stable_id


def page(
    path: str,
    texts: Sequence[str],
    *,
    title: str = "",
    heading: str = "Use",
    source: str = "docs",
    keywords: str = "",
    metadata: dict[str, str] | None = None,
    **shared: Any,
) -> tuple[Document, list[Chunk]]:
    """Return a document whose chunks hold ``texts``; ``shared`` goes to both records."""
    url = shared.pop("url", f"https://docs.example.org/{path}")
    title = title or path
    document = Document(
        source, path, title, "\n\n".join(texts), url=url, metadata=metadata or {}, **shared
    )
    chunks = [
        Chunk(
            stable_id(source, path, (heading,), text),
            source,
            path,
            title,
            (heading,),
            heading.lower(),
            text,
            position,
            len(text.split()),
            url=f"{url}#{heading.lower()}" if url else None,
            keywords=keywords,
            **shared,
        )
        for position, text in enumerate(texts)
    ]
    return document, chunks


def corpus(*pages: tuple[Document, list[Chunk]]) -> tuple[list[Document], list[Chunk]]:
    """Return all documents and all chunks of ``pages``."""
    return [document for document, _ in pages], [c for _, chunks in pages for c in chunks]
