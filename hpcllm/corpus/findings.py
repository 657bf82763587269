"""What a build report tells a site's staff about single pages.

Role: the record that every check of what was read gives, and the search for the line in the file
as its authors see it: checks run on canonical text, whose lines are others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from hpcllm.corpus.readers.base import decode_text
from hpcllm.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hpcllm.corpus.source_files import FileEntry

FindingKind = Literal[
    "secret",
    "quarantined",
    "disagreement",
    "outdated",
    "broken link",
    "broken include",
    "duplicate",
    "oversized",
    "generated",
]
"""Kinds of findings, the gravest first."""

FINDING_KINDS: tuple[FindingKind, ...] = get_args(FindingKind)

SHOWN_CHARACTERS = 160
"""Longest text of a page that is quoted in a finding."""

LOCATED_WORDS = 8
"""Words of a text that are looked for in its file."""

BINARY_SUFFIXES = (".pdf", ".docx")
"""Files without lines."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing on one page that somebody should look at.

    Attributes:
        kind: what it is.
        path: the page, relative to its source.
        line: line of the file from 1, or 0 where the file has no lines or it was not found.
        text: what was found, one line.
        other: the other place that it is about, ``path:line``, or empty.
    """

    kind: FindingKind
    path: str
    line: int
    text: str
    other: str = ""


def shown(text: str) -> str:
    """Return ``text`` on one line, cut at :data:`SHOWN_CHARACTERS`."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[: SHOWN_CHARACTERS - 1]}…"


@dataclass(slots=True)
class Locator:
    """Finds where a text stands in the files of one source.

    Attributes:
        entries: the files.
    """

    entries: Iterable[FileEntry]
    _by_path: dict[str, FileEntry] = field(default_factory=dict)
    _path: str = ""
    _text: str = ""

    def __post_init__(self) -> None:
        self._by_path = {entry.path: entry for entry in self.entries}

    def line_of(self, path: str, text: str) -> int:
        """Return the line from 1 at which the words of ``text`` begin in a file, or 0.

        Args:
            path: the file.
            text: a line of its canonical text; markup may differ in the file.
        """
        words = re.findall(r"\w+", text)[:LOCATED_WORDS]
        content = self._content(path)
        # A reader may have put a label such as "Warning:" before the file's own words.
        for tried in (words, words[:4], words[1:], words[1:5]):
            pattern = r"\W+".join(map(re.escape, tried))
            if tried and (match := re.search(pattern, content)):
                return content.count("\n", 0, match.start()) + 1
        return 0

    def line_with(self, path: str, exact: str) -> int:
        """Return the line from 1 that holds ``exact`` in a file, or 0."""
        content = self._content(path)
        place = content.find(exact) if exact else -1
        return content.count("\n", 0, place) + 1 if place >= 0 else 0

    def has(self, path: str, pattern: str) -> bool:
        """Say whether a regular expression matches somewhere in a file, case ignored."""
        return re.search(pattern, self._content(path), re.IGNORECASE | re.MULTILINE) is not None

    def _content(self, path: str) -> str:
        """Return the text of a file; only the last one is kept, since findings come by page."""
        if path != self._path:
            self._path, self._text = path, self._read(path)
        return self._text

    def _read(self, path: str) -> str:
        entry = self._by_path.get(path)
        if entry is None or path.lower().endswith(BINARY_SUFFIXES):
            return ""
        try:
            return decode_text(entry.read(), path)
        except IngestError:
            return ""
