"""What every reader takes and gives, and the few things that all readers share.

Role: the border between files of any format and the canonical Markdown dialect of
:class:`hpcllm.records.Document`. A reader is a function ``read(raw: RawFile) -> ReadResult`` that
raises nothing but :class:`~hpcllm.errors.IngestError`.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hpcllm.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hpcllm.records import Status

BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16: its mark begins with the UTF-16 one
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
WESTERN_SIGNS = "°º«»“”‘’–—…·©®€£§±×\xa0"
"""Signs that ordinary Western European text holds besides letters."""

_BADGE = re.compile(
    r"(?i)^(?:https?:)?//(?:[^/]*\.)?(?:shields\.io|badgen?\.(?:fury\.io|net)|bestpractices\.dev"
    r"|(?:travis-ci|coveralls|codecov|circleci|codacy|gitpod)\.(?:com|io|org)|mybinder\.org)/"
    r"|^(?:https?:)?//.*(?:/badges?/|[/_-]badge\.svg)"
)

SAMPLE_BYTES = 65_536
"""Bytes looked at to tell text from binary data and to guess an encoding."""


@dataclass(frozen=True, slots=True)
class RawFile:
    """One file as a source delivers it.

    Attributes:
        path: POSIX path relative to the source's root.
        data: the content.
        root: directory that ``path`` is relative to; includes are resolved inside it only.
        options: the source's ``[source.options]`` table, such as ``variables``.
        base_url: public address of the source's root, or None.
    """

    path: str
    data: bytes
    root: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    base_url: str | None = None

    @property
    def name(self) -> str:
        """The file's name without its folders."""
        return self.path.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The file's name without folders and last suffix."""
        return self.name.rpartition(".")[0] or self.name

    def text(self) -> str:
        """Return the content as text with line feeds as line ends and without byte order mark.

        Raises:
            IngestError: the data is binary.
        """
        return decode_text(self.data, self.path)


@dataclass(frozen=True, slots=True)
class ReadResult:
    """What a reader made of one file.

    Attributes:
        title: page title, never empty.
        text: the body in the canonical Markdown dialect.
        language: BCP 47 code that the file itself states, or None.
        metadata: front matter and similar, as text.
        status: how far the file itself says it is to be trusted.
        notice: a warning to cite with it, or empty.
        warnings: what could not be done, each one line, with the line where known.
        includes: other files of the source whose text went into it, POSIX paths relative to the
            root, sorted; the page has to be read again when one of them changes.
    """

    title: str
    text: str
    language: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    status: Status = "current"
    notice: str = ""
    warnings: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()


def decode_text(data: bytes, path: str) -> str:
    """Decode ``data``: byte order mark, else UTF-8, else what the bytes look like.

    Args:
        data: content of a file.
        path: its path, for the message.

    Returns:
        The text with line feeds as line ends. Stray invalid bytes in UTF-8 text become U+FFFD.

    Raises:
        IngestError: the data is binary.
    """
    return _decode(data, path).replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")


def _decode(data: bytes, path: str) -> str:
    for mark, encoding in BOMS:
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    if b"\0" in data:
        return _decode_with_nul(data, path)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _decode_guessing(data, path)


def _decode_with_nul(data: bytes, path: str) -> str:
    """Decode UTF-16 without byte order mark, whose ASCII has NUL as every second byte."""
    sample = data[:SAMPLE_BYTES]
    for offset, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        half = sample[offset::2]
        other = sample[1 - offset :: 2]
        if half and half.count(0) > 0.5 * len(half) and not other.count(0):
            return data.decode(encoding, errors="replace")
    raise IngestError(
        f"{path} looks like a binary file (NUL bytes): a text file was expected; "
        "exclude it from the source, or give it the suffix of its real format"
    )


def _decode_guessing(data: bytes, path: str) -> str:
    damaged = data.decode("utf-8", errors="replace")
    stray = damaged.count("\ufffd")
    if stray * 3 < sum(character > "\x7f" for character in damaged):
        return damaged  # UTF-8 with a few broken bytes: guessing would garble all its other letters
    western = data.decode("cp1252", errors="replace")
    if _looks_western(western):
        return western
    from charset_normalizer import from_bytes

    best = from_bytes(data[:SAMPLE_BYTES]).best()
    if best is not None:
        return data.decode(best.encoding, errors="replace")
    if _control_share(data[:SAMPLE_BYTES]) > 0.05:
        raise IngestError(
            f"{path} looks like a binary file (no text encoding fits): a text file was expected; "
            "exclude it from the source, or give it the suffix of its real format"
        )
    return western


def _looks_western(text: str) -> bool:
    """Say whether single-byte text reads as a Western European language.

    Asked before the general guess, which takes short Portuguese or German texts for Romanian.
    """
    special = [character for character in text[:SAMPLE_BYTES] if character > "\x7f"]
    plain = sum(character.isascii() and character.isalpha() for character in text[:SAMPLE_BYTES])
    return len(special) * 3 < plain and all(c.isalpha() or c in WESTERN_SIGNS for c in special)


def _control_share(sample: bytes) -> float:
    controls = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in sample)
    return controls / max(1, len(sample))


def anchor_of(heading: str) -> str:
    """Return the anchor that a heading has where its source defines none.

    Lower case; letters reduced to ASCII where they are accented Latin ones and kept in other
    scripts; punctuation dropped; runs of spaces and hyphens to one hyphen.

    >>> anchor_of("Memória & the `--mem` option")
    'memoria-the-mem-option'
    """
    decomposed = unicodedata.normalize("NFKD", heading)
    plain = "".join(c for c in decomposed if not unicodedata.combining(c))
    kept = re.sub(r"[^\w\s-]", "", plain.lower())
    return re.sub(r"[\s-]+", "-", kept).strip("-")


def is_badge(address: str) -> bool:
    """Say whether an image's address is that of a status badge (build, version, licence).

    >>> is_badge("https://img.shields.io/pypi/v/x.svg"), is_badge("img/badge-desk.png")
    (True, False)
    """
    return _BADGE.search(address) is not None


def word_set(text: str) -> frozenset[str]:
    """Return the words of ``text`` as a set, for tables of names that would fill a screen."""
    return frozenset(text.split())


def file_inside(root: Path, relative: str) -> Path | None:
    """Return the file at ``relative`` under ``root``, or None where it is absent or outside.

    Symbolic links are followed and must end inside the root too: an include must never pull a
    file of this machine into the index.
    """
    try:
        target = (root / relative.lstrip("/")).resolve()
        inside = target.is_relative_to(root.resolve())
        return target if inside and target.is_file() else None
    except (OSError, ValueError, RuntimeError):  # link loops, NUL in the name, over-long names
        return None


def as_text(value: object) -> str:
    """Return a front-matter value as one line of text: lists by commas, mappings as ``k: v``.

    >>> as_text({"licence": ["MIT", "GPL"], "free": True})
    'licence: MIT, GPL; free: yes'
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        pairs = ((as_text(key), as_text(item)) for key, item in value.items())
        return "; ".join(f"{key}: {item}" if item else key for key, item in pairs)
    if isinstance(value, (list, tuple, set)):
        return ", ".join(text for text in map(as_text, value) if text)
    return " ".join(str(value).split())


def page_name(path: str) -> str:
    """Return a page's file name as words; for an index page the name of its folder.

    >>> page_name("docs/Batch_Computing/index.md"), page_name("a/gpu-jobs.md")
    ('Batch Computing', 'Gpu jobs')
    """
    folder, _, name = path.rpartition("/")
    stem = name.rpartition(".")[0] or name
    if stem.lower() in ("index", "readme") and folder:
        stem = folder.rpartition("/")[2]
    words = " ".join(re.sub(r"[_-]+", " ", stem).split()) or name
    return words[:1].upper() + words[1:]
