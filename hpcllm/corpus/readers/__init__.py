"""One module per file format; each turns a file into canonical Markdown.

Role: :func:`read` picks the reader by the file's suffix. Readers are imported when first used, so
that a site without PDF files never loads a PDF library.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING

from hpcllm.corpus.readers.base import RawFile, ReadResult, anchor_of
from hpcllm.errors import IngestError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

__all__ = ["READERS", "RawFile", "ReadResult", "anchor_of", "is_readable", "read", "suffix_of"]

_MARKDOWN = "hpcllm.corpus.readers.markdown:read"
_HTML = "hpcllm.corpus.readers.html_page:read"
_MANPAGE = "hpcllm.corpus.readers.manpage:read"
_TEXT = "hpcllm.corpus.readers.plain_text:read"

READERS: dict[str, str] = {
    ".md": _MARKDOWN,
    ".markdown": _MARKDOWN,
    ".mdx": _MARKDOWN,
    ".snip": _MARKDOWN,
    ".rst": "hpcllm.corpus.readers.restructuredtext:read",
    ".html": _HTML,
    ".htm": _HTML,
    ".shtml": _HTML,
    ".xhtml": _HTML,
    **{f".{section}": _MANPAGE for section in range(1, 10)},
    ".pdf": "hpcllm.corpus.readers.pdf:read",
    ".docx": "hpcllm.corpus.readers.docx_file:read",
    ".ipynb": "hpcllm.corpus.readers.notebook:read",
    ".txt": _TEXT,
    ".text": _TEXT,
}
"""Suffix to ``module:function``."""


def suffix_of(path: str) -> str:
    """Return the lower-case suffix of a path with its dot, or an empty string."""
    name = path.rpartition("/")[2]
    stem, dot, suffix = name.rpartition(".")
    return f".{suffix.lower()}" if dot and stem else ""


def is_readable(path: str) -> bool:
    """Say whether some reader takes files with this path's suffix."""
    return suffix_of(path) in READERS


def read(raw: RawFile) -> ReadResult:
    """Read one file with the reader of its suffix.

    Args:
        raw: the file.

    Raises:
        IngestError: the suffix is unknown, the content is not what the suffix says, or a library
            failed on it; one bad file never ends an ingest with anything else.
    """
    suffix = suffix_of(raw.path)
    target = READERS.get(suffix)
    if target is None:
        raise IngestError(
            f"{raw.path}: no reader for the suffix {suffix!r}{nearest(suffix, READERS)}; known: "
            f"{' '.join(READERS)}; exclude the file from its source or convert it first"
        )
    module, _, function = target.partition(":")
    reader: Callable[[RawFile], ReadResult] = getattr(importlib.import_module(module), function)
    try:
        return reader(raw)
    except IngestError:
        raise
    except Exception as exc:
        logger.debug("reader %s failed on %s", target, raw.path, exc_info=True)
        raise IngestError(
            f"{raw.path}: cannot be read as {suffix} ({type(exc).__name__}: {exc}); check that the "
            "file opens elsewhere, or exclude it from its source"
        ) from exc
