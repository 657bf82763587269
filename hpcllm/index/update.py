"""Bring a workspace's index up to date with its sources.

Role: the one function behind ``hpcllm ingest``: sources -> documents and chunks -> next generation.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hpcllm.corpus.ingest import ReadSettings, fingerprint, open_sources, read_corpus
from hpcllm.corpus.sources import load_sources
from hpcllm.errors import ConfigError, StoreError
from hpcllm.index.admission import offer_held, unchanged_report
from hpcllm.index.build import build_generation
from hpcllm.index.embedders import load_embedder
from hpcllm.index.files import write_atomically
from hpcllm.index.generation import open_current, recorded_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hpcllm.corpus.sources import Source
    from hpcllm.index.admission import Admit, BuildReport
    from hpcllm.workspace import Workspace

    Progress = Callable[[int, int | None], None]


REPORT_FILE = "report.json"
"""What the last update said of the sources, beside the generations; for the staff page too."""


@dataclass(frozen=True)
class UpdateReport:
    """What an update did.

    Attributes:
        generation: name of the generation in use afterwards; empty where none is.
        unchanged: whether nothing had to be done.
        documents: pages in the index.
        chunks: chunks in the index.
        embedded: chunks whose vectors were computed.
        reused: chunks whose vectors were taken over.
        removed: chunks of the generation before that are gone.
        folded: chunks that repeat another one and were folded into it.
        seconds: wall time.
        sources: one report a source, see :class:`hpcllm.corpus.accounts.SourceReport`;
            empty where nothing had to be read.
        held: name of the new generation where it is held back; the counts are then about it.
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
    held: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the stable machine-readable form (docs/cli.md, ``hpcllm ingest --json``)."""
        return {**vars(self), "seconds": round(self.seconds, 3)}


def update_workspace(
    workspace: Workspace,
    *,
    strict: bool = False,
    rebuild: bool = False,
    admit: Admit | None = None,
    reading: Progress | None = None,
    embedding: Progress | None = None,
) -> UpdateReport:
    """Read the sources of a workspace and bring its index up to date.

    Args:
        workspace: whose sources and index.
        strict: fail at the first file that cannot be read.
        rebuild: read and embed everything anew.
        admit: asked with the name of a complete new generation whether it may serve, such as a
            gate; where it may not, the one in use stays in use. None admits all.
        reading: called as ``progress(advance, total)`` with pages.
        embedding: called as ``progress(advance, total)`` with chunks.

    Returns:
        What was done.

    Raises:
        ConfigError: the list of sources is missing, empty or wrong.
        IngestError: a source cannot be opened, or ``strict`` is set and a file was skipped.
        ModelError: the embedder's files are missing.
        StoreError: nothing readable was found, or the index cannot be written. Whatever goes
            wrong, the generation in use stays in use.
    """
    start = time.perf_counter()
    sources = _listed_sources(workspace)
    opened = open_sources(
        sources, workspace_root=workspace.root, cache_dir=workspace.home / "sources"
    )
    settings = workspace.settings.index
    read_settings = ReadSettings(
        settings.chunk_tokens, settings.chunk_limit, strict, settings.read_timeout_s
    )
    inputs = f"{fingerprint(opened, sources, read_settings)}:{settings.embedder}"
    if not rebuild and (report := _nothing_to_read(workspace, inputs, admit, start)):
        return report
    embedder = load_embedder(
        settings.embedder, models_dir=workspace.models_dir, threads=workspace.threads
    )
    corpus = read_corpus(
        sources,
        opened,
        count_tokens=embedder.count_tokens,
        settings=read_settings,
        progress=reading,
    )
    built = build_generation(
        workspace.index_dir,
        corpus.chunks,
        corpus.documents,
        embedder,
        progress=embedding,
        inputs=inputs,
        keep=settings.keep_generations,
        reuse=not rebuild,
        admit=admit,
    )
    report = _report_of(built, start, [each.to_json() for each in corpus.reports])
    write_atomically(workspace.index_dir / REPORT_FILE, _report_text(report))
    return report


def _listed_sources(workspace: Workspace) -> Sequence[Source]:
    sources = load_sources(workspace.sources_file)
    if not sources:
        raise ConfigError(
            f"{workspace.sources_file} lists no source: add a [[source]] with name, kind and path"
        )
    return sources


def _report_text(report: UpdateReport) -> str:
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return json.dumps({"created": created, **report.to_json()}, ensure_ascii=False, indent=1) + "\n"


def saved_report(index_dir: Path) -> dict[str, Any]:
    """Return what the last update that read the sources said of them.

    Args:
        index_dir: folder of the index.

    Returns:
        The keys of :meth:`UpdateReport.to_json` and ``created``, UTC time in ISO 8601.

    Raises:
        StoreError: there is none, or it is damaged.
    """
    path = index_dir / REPORT_FILE
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError as exc:
        raise StoreError(
            f"{index_dir} holds no {REPORT_FILE} yet; make one with: hpcllm ingest --rebuild"
        ) from exc
    except (OSError, ValueError) as exc:
        raise StoreError(
            f"{path} cannot be read ({exc}); make it anew with: hpcllm ingest --rebuild"
        ) from exc
    if not isinstance(data, dict) or not isinstance(data.get("sources"), list):
        raise StoreError(f"{path} is no report; make it anew with: hpcllm ingest --rebuild")
    return data


def _report_of(built: BuildReport, start: float, sources: list[dict[str, Any]]) -> UpdateReport:
    return UpdateReport(
        generation=built.generation,
        unchanged=built.unchanged,
        documents=built.documents,
        chunks=built.chunks,
        embedded=built.embedded,
        reused=built.reused,
        removed=built.removed,
        folded=built.folded,
        seconds=time.perf_counter() - start,
        sources=sources,
        held=built.held,
    )


def _nothing_to_read(
    workspace: Workspace, inputs: str, admit: Admit | None, start: float
) -> UpdateReport | None:
    """Return the report where what was built from just these files serves, or is held back."""
    if report := _unchanged(workspace, inputs, start):
        return report
    keep = workspace.settings.index.keep_generations
    built = offer_held(workspace.index_dir, inputs=inputs, admit=admit, keep=keep)
    return _report_of(built, start, []) if built else None


def _unchanged(workspace: Workspace, inputs: str, start: float) -> UpdateReport | None:
    """Return the report of doing nothing, where the index was built from just these files."""
    if recorded_inputs(workspace.index_dir) != inputs:
        return None
    try:
        generation = open_current(workspace.index_dir)
    except StoreError:
        return None
    try:
        if recorded_inputs(workspace.index_dir, generation.name) != inputs:
            return None  # the current one is damaged and an older one stands in for it
        return _report_of(unchanged_report(generation, start), start, [])
    finally:
        generation.close()
