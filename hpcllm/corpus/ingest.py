"""Read all sources into documents and chunks, with an account of everything that was left out.

Role: the top of the corpus stage: ``sources -> (documents, chunks, report)``. Knows nothing of
vectors or of the index; :mod:`hpcllm.index.update` hands its result on.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from hpcllm.corpus.chunker import DEFAULT_LIMIT, DEFAULT_TARGET, chunk_document
from hpcllm.corpus.matching import matches_any
from hpcllm.corpus.readers import RawFile, is_readable, read, suffix_of
from hpcllm.corpus.sources import open_source
from hpcllm.errors import IngestError
from hpcllm.records import Document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from hpcllm.corpus.readers.base import ReadResult
    from hpcllm.corpus.sources import FileEntry, Source, SourceFiles
    from hpcllm.records import Chunk, Status

logger = logging.getLogger(__name__)

READER_VERSION = 1
"""Enters the fingerprint; raise it when readers or the chunker give other results than before."""

STATUS_FOLDERS: dict[str, Status] = {
    "decommissioned": "decommissioned",
    "retired": "decommissioned",
    "archive": "outdated",
    "archived": "outdated",
    "deprecated": "outdated",
    "obsolete": "outdated",
}
"""Folder names that say of themselves that their pages no longer hold."""

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

NOTICES: dict[Status, str] = {
    "decommissioned": "This page describes a system that is no longer in service.",
    "outdated": "This page is marked as out of date.",
}
"""Warnings that go with a citation where the page itself gives none."""


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
        documents: pages read.
        words: words of these pages.
        chunks: chunks they were cut into.
        skipped: files left out, each with its reason.
        warnings: what could not be done, ``path: text`` each.
        statuses: pages by status other than ``current``.
    """

    name: str
    documents: int = 0
    words: int = 0
    chunks: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return asdict(self)


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


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """What decides how files become chunks.

    Attributes:
        target: aimed-at tokens of a chunk.
        limit: most tokens of a chunk.
        strict: turn the first skipped file into an error.
    """

    target: int = DEFAULT_TARGET
    limit: int = DEFAULT_LIMIT
    strict: bool = False


def fingerprint(
    opened: Iterable[SourceFiles], sources: Iterable[Source], settings: ReadSettings
) -> str:
    """Return a hash of everything that reading depends on, from file names, sizes and dates.

    An equal fingerprint means that reading again would give the same corpus, so that an unchanged
    site costs one look at its folders.
    """
    digest = hashlib.sha256(f"{READER_VERSION} {settings.target} {settings.limit}".encode())
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
    progress: Callable[[int, int | None], None] | None = None,
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
        reason and left out.

    Raises:
        IngestError: ``settings.strict`` is set and a file was skipped.
    """
    corpus = Corpus()
    for source, files in zip(sources, opened, strict=True):
        entries = [entry for entry in files if is_readable(entry.path)]
        if progress:
            progress(0, len(entries))
        report = SourceReport(source.name, skipped=list(_left_out(source, files, entries)))
        results = _read_all(source, files, entries, report, settings, progress)
        for path, result in _without_fragments(source.name, results, report):
            document = _document(source, files, path, result)
            chunks = chunk_document(
                document, count_tokens=count_tokens, target=settings.target, limit=settings.limit
            )
            _account(report, document, chunks)
            corpus.documents.append(document)
            corpus.chunks.extend(chunks)
        corpus.reports.append(report)
        if not report.documents:
            logger.warning("source %s holds no readable page", source.name)
    return corpus


def _left_out(source: Source, files: SourceFiles, entries: list[FileEntry]) -> Iterable[Skipped]:
    """Yield what the source itself could not deliver, and count files of unknown formats."""
    for path, reason in files.skipped:
        yield Skipped(source.name, path, reason)
    known = {entry.path for entry in entries}
    for entry in files:
        if entry.path not in known:
            suffix = suffix_of(entry.path) or "no suffix"
            yield Skipped(source.name, entry.path, f"no reader for this kind of file ({suffix})")


def _read_all(
    source: Source,
    files: SourceFiles,
    entries: list[FileEntry],
    report: SourceReport,
    settings: ReadSettings,
    progress: Callable[[int, int | None], None] | None,
) -> dict[str, ReadResult]:
    results: dict[str, ReadResult] = {}
    for entry in entries:
        try:
            raw = RawFile(entry.path, entry.read(), files.root, source.options, source.base_url)
            results[entry.path] = read(raw)
        except IngestError as exc:
            if settings.strict:
                raise
            report.skipped.append(Skipped(source.name, entry.path, _first_line(exc)))
            logger.info("skipped %s: %s", entry.path, exc)
        if progress:
            progress(1, None)
    return results


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


def _without_fragments(
    source: str, results: dict[str, ReadResult], report: SourceReport
) -> Iterable[tuple[str, ReadResult]]:
    """Yield pages, leaving out empty ones and fragments whose text stands in an including page."""
    included = {path: page for page, result in results.items() for path in result.includes}
    for path, result in results.items():
        report.warnings += [f"{path}: {warning}" for warning in result.warnings]
        folders = set(PurePosixPath(path).parts[:-1])
        if path in included and folders & FRAGMENT_FOLDERS:
            reason = f"a part of other pages, such as {included[path]}"
            report.skipped.append(Skipped(source, path, reason))
        elif not result.text.strip():
            report.skipped.append(Skipped(source, path, "holds no text"))
        else:
            yield path, result


def _document(source: Source, files: SourceFiles, path: str, result: ReadResult) -> Document:
    status = _status(source, path, result)
    return Document(
        source=source.name,
        path=path,
        title=result.title,
        text=result.text,
        url=files.url_for(path),
        language=result.language or source.language,
        cluster=result.metadata.get("cluster") or source.cluster,
        revision=files.revision,
        status=status,
        notice=result.notice or NOTICES.get(status, ""),
        metadata=result.metadata,
        warnings=result.warnings,
    )


def _status(source: Source, path: str, result: ReadResult) -> Status:
    """Take the status from the source's settings, else from the page, else from its folder."""
    patterns: dict[Status, list[str]] = source.options.get("status_paths", {})
    for status, globs in patterns.items():
        if matches_any(path, globs):
            return status
    if result.status != "current":
        return result.status
    folders = PurePosixPath(path.lower()).parts[:-1]
    return next((STATUS_FOLDERS[name] for name in folders if name in STATUS_FOLDERS), "current")


def _account(report: SourceReport, document: Document, chunks: list[Chunk]) -> None:
    report.documents += 1
    report.words += len(document.text.split())
    report.chunks += len(chunks)
    if document.status != "current":
        report.statuses[document.status] = report.statuses.get(document.status, 0) + 1


def report_json(corpus: Corpus) -> str:
    """Return all reports as JSON, as kept beside the index."""
    return json.dumps([report.to_json() for report in corpus.reports], ensure_ascii=False, indent=1)
