"""Checks that need more than one page: links, copies, pages that disagree.

Role: run at the end of ingest; adds findings to the reports of the sources.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from hpcllm.corpus.disagreements import find_disagreements
from hpcllm.corpus.findings import Finding
from hpcllm.corpus.page_links import LinkCheck
from hpcllm.records import normalise_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hpcllm.corpus.accounts import Corpus
    from hpcllm.corpus.findings import Locator
    from hpcllm.corpus.source_files import SourceFiles
    from hpcllm.records import Document

COPY_WORDS = 20
"""Pages with fewer words are no copies: stubs and redirects look alike."""


LINKED_KINDS = frozenset({"folder", "git"})
"""Kinds of sources whose links are paths among their files."""


def check_source(
    kind: str, files: SourceFiles, documents: Sequence[Document], locator: Locator
) -> list[Finding]:
    """Return findings about how the pages of one source hang together."""
    if kind not in LINKED_KINDS:
        return []
    paths = [entry.path for entry in files]
    return list(LinkCheck(files.root, paths, locator).run(documents))


def check_pages(corpus: Corpus, locators: Mapping[str, Locator]) -> None:
    """Add findings about pages of all sources to their reports."""
    reports = {report.name: report for report in corpus.reports}
    for source, finding in _copies(corpus.documents):
        reports[source].findings.append(finding)
    apart = {document.source for document in corpus.documents if document.metadata.get("scope")}
    chunks = [chunk for chunk in corpus.chunks if chunk.source not in apart]
    for source, finding in find_disagreements(chunks, locators):
        reports[source].findings.append(finding)


def _copies(documents: Sequence[Document]) -> Iterator[tuple[str, Finding]]:
    """Yield (source, finding) for each page that repeats an earlier one word for word."""
    first: dict[bytes, Document] = {}
    for document in documents:
        text = normalise_text(document.text).casefold()
        if text.count(" ") < COPY_WORDS:
            continue
        kept = first.setdefault(hashlib.sha256(text.encode("utf-8", "replace")).digest(), document)
        if kept is not document:
            place = kept.path if kept.source == document.source else f"{kept.source}/{kept.path}"
            message = "says the same as another page, word for word"
            yield document.source, Finding("duplicate", document.path, 1, message, f"{place}:1")
