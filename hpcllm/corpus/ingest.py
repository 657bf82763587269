"""Read all sources into documents and chunks, with an account of everything that was left out.

Role: the top of the corpus stage: ``sources -> (documents, chunks, report)``. Knows nothing of
vectors or of the index; :mod:`hpcllm.index.update` hands its result on.
"""

from __future__ import annotations

import hashlib
import logging
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from hpcllm.corpus.accounts import Corpus, Skipped, SourceReport
from hpcllm.corpus.bounded import DEFAULT_TIMEOUT_S, BoundedReader, is_small
from hpcllm.corpus.chunker import DEFAULT_LIMIT, DEFAULT_TARGET, chunk_document
from hpcllm.corpus.crosscheck import check_pages, check_source
from hpcllm.corpus.findings import FINDING_KINDS, Finding, Locator
from hpcllm.corpus.readers import RawFile, is_readable, read, suffix_of
from hpcllm.corpus.sources import TicketSource, open_source
from hpcllm.corpus.status import NOTICES, retired_system_of, retired_systems, status_by_place
from hpcllm.corpus.tickets import Ticket, read_export
from hpcllm.corpus.trust import Examiner, page_findings
from hpcllm.errors import IngestError
from hpcllm.records import Document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from hpcllm.corpus.readers.base import ReadResult
    from hpcllm.corpus.sources import FileEntry, Source, SourceFiles
    from hpcllm.records import Status

    Progress = Callable[[int, int | None], None]
    ReadFile = Callable[[RawFile], ReadResult]

logger = logging.getLogger(__name__)

__all__ = [
    "Corpus",
    "ReadSettings",
    "Skipped",
    "SourceReport",
    "fingerprint",
    "open_sources",
    "read_corpus",
]

READER_VERSION = 5
"""Enters the fingerprint; raise it when readers or the chunker give other results than before."""

FRAGMENT_FOLDERS = frozenset(
    {
        "imports",
        "includes",
        "_includes",
        "include",
        "snippets",
        "_snippets",
        "partials",
        "fragments",
    }
)
"""Folders whose files are parts of other pages once some page includes them."""

INDEX_KEYS = frozenset({"weight", "scope"})
"""Keys of metadata that speak to the index; a page's own "weight" orders a menu and is dropped."""

TICKET_SCOPE = "tickets"
"""Value of the metadata key ``scope`` of pages that a search finds only where asked for them."""


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """What decides how files become chunks.

    Attributes:
        target: aimed-at tokens of a chunk.
        limit: most tokens of a chunk.
        strict: turn the first skipped file into an error.
        timeout_s: most processor time of reading one file in seconds; slower ones are skipped.
    """

    target: int = DEFAULT_TARGET
    limit: int = DEFAULT_LIMIT
    strict: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S


def fingerprint(
    opened: Iterable[SourceFiles], sources: Iterable[Source], settings: ReadSettings
) -> str:
    """Return a hash of everything that reading depends on, from file names, sizes and dates.

    An equal fingerprint means that reading again would give the same corpus, so that an unchanged
    site costs one look at its folders. The month enters too: pages that name the day of an end to
    come are read again when it may have passed.
    """
    lengths = f"{settings.target} {settings.limit} {settings.timeout_s:g}"
    digest = hashlib.sha256(f"{READER_VERSION} {lengths} {date.today():%Y-%m}".encode())
    for source in sources:
        digest.update(source.model_dump_json().encode())
    for files in opened:
        for entry in files:
            digest.update(f"{entry.path}\0{entry.size}\0{entry.modified_ns}\n".encode())
    return digest.hexdigest()


def open_sources(
    sources: Iterable[Source], *, workspace_root: Path, cache_dir: Path
) -> list[SourceFiles]:
    """Open every source; see :func:`hpcllm.corpus.sources.open_source` for what can go wrong."""
    return [
        open_source(source, workspace_root=workspace_root, cache_dir=cache_dir)
        for source in sources
    ]


def read_corpus(
    sources: Iterable[Source],
    opened: Iterable[SourceFiles],
    *,
    count_tokens: Callable[[str], int],
    settings: ReadSettings = ReadSettings(),
    progress: Progress | None = None,
) -> Corpus:
    """Read every file of every source.

    Args:
        sources: the sources, in the order of ``opened``.
        opened: their files.
        count_tokens: length of a text in tokens of the embedder.
        settings: chunk lengths and strictness.
        progress: called as ``progress(advance, total)`` with files read and files in all.

    Returns:
        Documents, chunks and one report a source. A file that cannot be read is reported with its
        reason and left out, so is one that takes longer than ``settings.timeout_s``.

    Raises:
        IngestError: ``settings.strict`` is set and a file was skipped.
    """
    corpus = Corpus()
    opened = list(opened)
    locators: dict[str, Locator] = {}
    with ExitStack() as stack:
        read_file: ReadFile = read
        if not is_small(entry for files in opened for entry in files):
            read_file = stack.enter_context(BoundedReader(settings.timeout_s)).read
        for source, files in zip(sources, opened, strict=True):
            reading = _Reading(source, files, settings, progress, read_file)
            locators[source.name] = reading.locator
            _take(reading, corpus, count_tokens)
    check_pages(corpus, locators)
    for report in corpus.reports:
        report.findings.sort(key=_gravity)
    return corpus


def _take(reading: _Reading, corpus: Corpus, count_tokens: Callable[[str], int]) -> None:
    """Read one source and add its pages, chunks and report to the corpus."""
    corpus.reports.append(reading.report)
    documents = reading.run()
    settings = reading.settings
    for document in documents:
        chunks = chunk_document(
            document, count_tokens=count_tokens, target=settings.target, limit=settings.limit
        )
        reading.report.count(document, chunks)
        reading.report.findings += page_findings(document, len(chunks))
        corpus.documents.append(document)
        corpus.chunks.extend(chunks)
    source = reading.source
    reading.report.findings += check_source(source.kind, reading.files, documents, reading.locator)
    if not reading.report.documents:
        logger.warning("source %s holds no readable page", source.name)


def _gravity(finding: Finding) -> tuple[int, str, int]:
    return FINDING_KINDS.index(finding.kind), finding.path, finding.line


@dataclass
class _Reading:
    """The reading of one source."""

    source: Source
    files: SourceFiles
    settings: ReadSettings
    progress: Progress | None
    read_file: ReadFile
    report: SourceReport = field(init=False)
    locator: Locator = field(init=False)

    def __post_init__(self) -> None:
        self.locator = Locator(self.files)
        self.report = SourceReport(
            self.source.name, self.source.kind, self.source.licence, self.files.revision
        )

    def run(self) -> list[Document]:
        """Return the source's pages, made safe to index."""
        self.report.skipped += [
            Skipped(self.source.name, path, reason) for path, reason in self.files.skipped
        ]
        if isinstance(self.source, TicketSource):
            documents = list(self._tickets(self.source))
        else:
            documents = self._pages()
        examiner = Examiner(self.locator, date.today())
        examined = []
        for document in documents:
            safe, findings = examiner.examine(document)
            self.report.findings += findings
            examined.append(safe)
        return examined

    def _pages(self) -> list[Document]:
        entries = [entry for entry in self.files if is_readable(entry.path)]
        self._count_unreadable(entries)
        if self.progress:
            self.progress(0, len(entries))
        results = self._read_all(entries)
        systems = retired_systems(results)
        return [
            self._document(path, result, retired_system_of(path, systems))
            for path, result in self._without_fragments(results)
        ]

    def _count_unreadable(self, entries: list[FileEntry]) -> None:
        """Account for files of unknown formats."""
        known = {entry.path for entry in entries}
        for entry in self.files:
            if entry.path not in known:
                suffix = suffix_of(entry.path) or "no suffix"
                self._skip(entry.path, f"no reader for this kind of file ({suffix})")

    def _skip(self, path: str, reason: str) -> None:
        self.report.skipped.append(Skipped(self.source.name, path, reason))

    def _read_all(self, entries: list[FileEntry]) -> dict[str, ReadResult]:
        results: dict[str, ReadResult] = {}
        options, base_url = self.source.options, self.source.base_url
        for entry in entries:
            try:
                raw = RawFile(entry.path, entry.read(), self.files.root, options, base_url)
                results[entry.path] = self.read_file(raw)
            except IngestError as exc:
                self._failed(entry.path, exc)
            if self.progress:
                self.progress(1, None)
        return results

    def _failed(self, path: str, error: IngestError) -> None:
        if self.settings.strict:
            raise error
        self._skip(path, str(error).split("\n", 1)[0])
        logger.info("skipped %s: %s", path, error)

    def _without_fragments(
        self, results: dict[str, ReadResult]
    ) -> Iterator[tuple[str, ReadResult]]:
        """Yield pages but empty ones and fragments whose text stands in an including page."""
        included = {path: page for page, result in results.items() for path in result.includes}
        for path, result in results.items():
            self.report.warnings += [f"{path}: {warning}" for warning in result.warnings]
            folders = set(PurePosixPath(path).parts[:-1])
            if path in included and folders & FRAGMENT_FOLDERS:
                self._skip(path, f"a part of other pages, such as {included[path]}")
            elif not result.text.strip():
                self._skip(path, "holds no text")
            else:
                yield path, result

    def _document(self, path: str, result: ReadResult, retired: str) -> Document:
        patterns: dict[Status, list[str]] = self.source.options.get("status_paths", {})
        status = status_by_place(path, patterns, result.status)
        notice = result.notice
        if retired and status == "current":
            status = "outdated"
            notice = notice or f"This page is about {retired}, which is no longer in service."
        return self._made(path, result, status, notice or NOTICES.get(status, ""))

    def _made(self, path: str, result: ReadResult, status: Status, notice: str) -> Document:
        source = self.source
        metadata = {k: value for k, value in result.metadata.items() if k not in INDEX_KEYS}
        if source.weight != 1.0:
            metadata["weight"] = f"{source.weight:g}"
        return Document(
            source=source.name,
            path=path,
            title=result.title,
            text=result.text,
            url=self.files.url_for(path),
            language=result.language or source.language,
            cluster=result.metadata.get("cluster") or source.cluster,
            revision=self.files.revision,
            status=status,
            notice=notice,
            metadata=metadata,
            warnings=result.warnings,
        )

    def _tickets(self, source: TicketSource) -> Iterator[Document]:
        paths: dict[str, int] = {}
        for entry in self.files:
            try:
                export = list(
                    read_export(entry.read(), entry.path, source.options.get("fields", {}))
                )
            except IngestError as exc:
                self._failed(entry.path, exc)
                continue
            for item in export:
                if isinstance(item, Ticket):
                    paths[item.path] = count = paths.get(item.path, 0) + 1
                    path = item.path if count == 1 else f"{item.path}-{count}"
                    yield self._ticket(source, item, path)
                else:
                    line, reason = item
                    self._skip(f"{entry.path}:{line}", reason)

    def _ticket(self, source: TicketSource, ticket: Ticket, path: str) -> Document:
        export = ticket.path.partition("/")[0]
        self.report.findings += [
            Finding("secret", export, ticket.line, f"{kind} taken out") for kind in ticket.removed
        ]
        document = self._made(path, ticket.result, "current", "")
        scope = {} if source.mix else {"scope": TICKET_SCOPE}
        return replace(document, url=ticket.url, metadata={**document.metadata, **scope})
