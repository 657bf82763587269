"""What is done to a document before it is cut: secrets out, orders to a model out, status found.

Role: one step of ingest, ``Document -> Document`` with findings. Nothing that it takes out reaches
the index, the report or a log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hpcllm.corpus.findings import Finding, shown
from hpcllm.corpus.quarantine import MARKER, quarantine, reason_for
from hpcllm.corpus.readers import suffix_of
from hpcllm.corpus.readers.base import page_name
from hpcllm.corpus.redact import redact
from hpcllm.corpus.stale import find_stale

if TYPE_CHECKING:
    from datetime import date

    from hpcllm.corpus.findings import FindingKind, Locator
    from hpcllm.records import Document

OVERSIZED_WORDS = 12_000
"""Words from which a page is reported: it takes many passages to find one sentence in it."""


@dataclass(frozen=True, slots=True)
class Examiner:
    """Makes documents safe to index.

    Attributes:
        locator: finds lines in the source's files.
        today: planned ends of systems count once their date has passed.
        personal: whether e-mail addresses and user names are taken out too (tickets).
    """

    locator: Locator
    today: date
    personal: bool = False

    def examine(self, document: Document) -> tuple[Document, list[Finding]]:
        """Return the document as it may be indexed, and what was found."""
        findings: list[Finding] = []
        cleaned = self._quarantined(self._redacted(document, findings), findings)
        return self._with_status(cleaned, findings), findings

    def _redacted(self, document: Document, findings: list[Finding]) -> Document:
        text, found = redact(document.text, personal=self.personal)
        lines = document.text.split("\n")
        for item in found:
            line = self._line_of_secret(document.path, lines, item.line)
            findings.append(Finding("secret", document.path, line, f"{item.kind} taken out"))
        title, in_title = redact(document.title, personal=self.personal)
        metadata = {
            key: redact(value, personal=self.personal)[0]
            for key, value in document.metadata.items()
        }
        if not found and not in_title and metadata == document.metadata:
            return document
        return replace(document, text=text, title=title, metadata=metadata)

    def _line_of_secret(self, path: str, lines: list[str], number: int) -> int:
        """Return the line in the file; a key's body is found by the line before it."""
        for candidate in (number - 1, number - 2):
            if 0 <= candidate < len(lines):
                line = lines[candidate].strip()
                place = self.locator.line_with(path, line)
                if place:
                    return place + (number - 1 - candidate)
        return self.locator.line_of(path, lines[number - 1])

    def _quarantined(self, document: Document, findings: list[Finding]) -> Document:
        text, found = quarantine(document.text)
        for item in found:
            line = self.locator.line_of(document.path, item.text)
            message = f"{item.reason}: {shown(item.text)}"
            findings.append(Finding("quarantined", document.path, line, message))
        title, metadata = document.title, dict(document.metadata)
        if reason := reason_for(title):
            findings.append(Finding("quarantined", document.path, 1, f"title: {reason}"))
            title = page_name(document.path)
        for key, value in document.metadata.items():
            if reason := reason_for(value):
                findings.append(Finding("quarantined", document.path, 1, f"{key}: {reason}"))
                metadata[key] = MARKER
        notice = "" if reason_for(document.notice) else document.notice
        if not found and (title, metadata, notice) == (
            document.title, document.metadata, document.notice
        ):  # fmt: skip
            return document
        return replace(document, text=text, title=title, metadata=metadata, notice=notice)

    def _with_status(self, document: Document, findings: list[Finding]) -> Document:
        if document.status == "current":
            stale = find_stale(document.title, document.text, self.today)
            if stale is not None:
                line = self.locator.line_of(document.path, stale.text) if stale.line else 1
                findings.append(Finding("outdated", document.path, line, stale.text))
                return replace(document, status=stale.status, notice=stale.text)
        elif document.status == "generated":
            message = "written by a program; its passages rank lower"
            findings.append(Finding("generated", document.path, 1, message))
        else:
            findings.append(Finding("outdated", document.path, 1, document.notice))
        return document


def page_findings(document: Document, chunks: int) -> list[Finding]:
    """Return what is worth saying about the size of a page and what it includes.

    Args:
        document: the page.
        chunks: chunks it was cut into.
    """
    findings: list[Finding] = []
    words = len(document.text.split())
    is_manual = suffix_of(document.path)[1:].isdecimal()
    if words > OVERSIZED_WORDS and document.status != "generated" and not is_manual:
        message = f"{words} words in {chunks} chunks: split it into pages of one subject"
        findings.append(Finding("oversized", document.path, 1, message))
    for warning in document.warnings:
        if kind := _kind_of(warning):
            place, _, rest = warning.partition(": ")
            number = place.removeprefix("line ")
            known = place.startswith("line ") and number.isdecimal()
            line, text = (int(number), rest) if known else (0, warning)
            findings.append(Finding(kind, document.path, line, text))
    return findings


def _kind_of(warning: str) -> FindingKind | None:
    is_missing = "missing" in warning and ("include" in warning or "snippet" in warning)
    return "broken include" if is_missing else None
