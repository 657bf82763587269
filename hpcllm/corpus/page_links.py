"""Find links inside a source that lead nowhere.

Role: a check over all pages of one source, for the build report. Only links to files of the same
source are looked at: relative ones, and anchors; nothing is fetched.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

from hpcllm.corpus.blocks import ANCHOR, fence_end, opens_fence
from hpcllm.corpus.findings import Finding
from hpcllm.corpus.readers.base import anchor_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from hpcllm.corpus.findings import Locator
    from hpcllm.records import Document

LINK = re.compile(
    r"(?<!\\)\[(?:[^\[\]]|\[[^\[\]]*\])*\]"
    r"\(\s*(?:<([^>\n]*)>|([^()\s]*(?:\([^()\s]*\)[^()\s]*)*))"
)
HEADING = re.compile(r"^#{1,6}[ \t]+(.*?)[ \t]*$")
SCHEME = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)
GENERATED_ANCHOR = re.compile(r"^(?:__|fn|ref)[\w:.-]*\d|^(?:page|L)=?\d+$|^:~:")
"""Anchors of tabs, footnotes, pages and lines, which no source defines."""
UNRESOLVED = re.compile(r"[{}$<>]|\s")
PAGE_SUFFIXES = (".md", ".rst", ".shtml", ".markdown", ".mdx", ".ipynb", ".html", ".txt")
SECTION_SUFFIXES = tuple(f".{number}" for number in range(1, 10))


@dataclass(slots=True)
class LinkCheck:
    """Checks the links of one source.

    Attributes:
        root: folder of the source.
        paths: files of the source.
        locator: finds lines in them.
    """

    root: Path
    paths: Iterable[str]
    locator: Locator
    _known: set[str] = field(default_factory=set)
    _manuals: set[str] = field(default_factory=set)
    _anchors: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in self.paths:
            self._known.add(path)
            stem = posixpath.splitext(path)[0]
            self._known |= {stem, posixpath.dirname(path)}
            if posixpath.basename(stem).lower() in ("index", "readme"):
                self._known.add(posixpath.dirname(path))
            if path.endswith(SECTION_SUFFIXES):
                self._manuals.add(posixpath.basename(stem))

    def run(self, documents: Sequence[Document]) -> Iterator[Finding]:
        """Yield a finding for each link that leads nowhere, each target once a page."""
        self._anchors = {document.path: anchors_of(document.text) for document in documents}
        for document in documents:
            if document.status == "generated":
                continue
            for target in dict.fromkeys(links_in(document.text)):
                reason = self._objection(document.path, target)
                if reason:
                    line = self._line(document.path, target)
                    yield Finding("broken link", document.path, line, f"{target} {reason}")

    def _objection(self, page: str, target: str) -> str:
        if not target or SCHEME.match(target) or UNRESOLVED.search(target):
            return ""
        place, _, anchor = target.partition("#")
        place = unquote(place.partition("?")[0])
        found = page if not place else self._resolved(page, place)
        if found is None:
            return "is not among the files of this source"
        if anchor and not self._has_anchor(found, unquote(anchor)):
            return f"names an anchor that {found} does not have"
        return ""

    def _has_anchor(self, page: str, anchor: str) -> bool:
        """Say whether a page has an anchor; one that readers drop may stand in the file itself."""
        anchors = self._anchors.get(page)
        if not anchors or GENERATED_ANCHOR.match(anchor) or _is_among(anchor, anchors):
            return True
        name = re.escape(anchor)
        return self.locator.has(
            page,
            rf"\b(?:id|name)\s*=\s*[\"']?{name}(?![\w-])|\{{[^}}\n]*#{name}(?![\w-])"
            rf"|^\({name}\)=|^\s*\.\. _`?{name}`?:",
        )

    def _resolved(self, page: str, place: str) -> str | None:
        """Return the page a link leads to, empty for what is no page, None for nothing."""
        folder = posixpath.dirname(page)
        starts = ("",) if place.startswith("/") else (folder, posixpath.splitext(page)[0])
        for start in starts:
            path = posixpath.normpath(posixpath.join(start, place.lstrip("/")))
            if path.startswith(".."):
                return ""  # out of the source: nothing is known about it
            for candidate in _candidates(path):
                if candidate in self._anchors:
                    return candidate
            stem = posixpath.splitext(path)[0]
            if path in self._known or stem in self._known or self._exists(path):
                return ""
            if path.endswith(".html") and posixpath.basename(stem) in self._manuals:
                return ""
        return "" if place.startswith("/") else None

    def _exists(self, path: str) -> bool:
        try:
            return (self.root / path).exists()
        except (OSError, ValueError):
            return False

    def _line(self, page: str, target: str) -> int:
        place, _, anchor = target.partition("#")
        name = posixpath.basename(place) or anchor
        return self.locator.line_with(page, target) or self.locator.line_with(page, name)


def links_in(text: str) -> Iterator[str]:
    """Yield the targets of links of canonical text, code left out."""
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        if opens_fence(lines[index]):
            index = max(fence_end(lines, index), index + 1)
            continue
        if "](" in lines[index]:
            for match in LINK.finditer(re.sub(r"(`+)[^`].*?\1", "", lines[index])):
                yield match.group(1) or match.group(2) or ""
        index += 1


def anchors_of(text: str) -> set[str]:
    """Return the anchors of a page: explicit ones and what headings give, in every usual slug."""
    anchors: set[str] = set()
    for line in text.split("\n"):
        explicit = ANCHOR.search(line)
        if explicit:
            anchors.add(explicit.group(1))
        if heading := HEADING.match(ANCHOR.sub("", line)):
            anchors.add(anchor_of(heading.group(1)))
    return anchors


def _is_among(anchor: str, anchors: set[str]) -> bool:
    """Say whether a page has an anchor, whatever slug its generator makes."""
    if anchor in anchors or anchor in ("", "top"):
        return True
    reduced = {_reduced(name) for name in anchors}
    plain = _reduced(anchor)
    return plain in reduced or re.sub(r"\d+$", "", plain) in reduced


def _reduced(anchor: str) -> str:
    return re.sub(r"[\W_]+", "", anchor_of(anchor))


def _candidates(path: str) -> Iterator[str]:
    yield path
    stem, suffix = posixpath.splitext(path)
    base = stem if suffix in (".html", ".htm", ".md", ".rst") else path
    for ending in PAGE_SUFFIXES:
        yield f"{base}{ending}"
    folder = posixpath.dirname(base) if posixpath.basename(base) == "index" else path
    folder = "" if folder in ("", ".") else f"{folder}/"
    for name in ("index", "README", "readme"):
        for ending in PAGE_SUFFIXES:
            yield f"{folder}{name}{ending}"
