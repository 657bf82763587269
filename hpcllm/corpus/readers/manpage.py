r"""Read man pages: every option and parameter becomes a definition item with an anchor.

Role: pages written with the man(7) macros are read by the interpreter here, in Python alone;
pages written with mdoc(7) are handed to ``mandoc`` or ``groff`` where one is installed.

Options of a source that matter here:

- ``option_anchor``: how the site's HTML names an option, such as ``"OPT_{name}"``; without it
  the anchor is ``opt-`` and the name in lower case.
- ``section_anchor``: likewise for sections, such as ``"SECTION_{name}"``.
"""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
import zlib
from typing import TYPE_CHECKING

from hpcllm.corpus.readers.base import RawFile, ReadResult, decode_text
from hpcllm.corpus.readers.blocks import Heading, render
from hpcllm.corpus.readers.man_inline import with_synopsis
from hpcllm.corpus.readers.man_macros import ManPage
from hpcllm.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger(__name__)

MDOC = re.compile(r"(?m)^\.\s*Dd\b")
MAN = re.compile(r"(?m)^[.']\s*TH\b")
FORMATTER_TIMEOUT_S = 30
"""Seconds that mandoc or groff may take for one page."""
UNPACKED_LIMIT = 20_000_000
"""Bytes that a compressed page may unpack to."""


def read(raw: RawFile) -> ReadResult:
    """Turn a man page into canonical Markdown.

    Args:
        raw: the page; gzip-compressed content is unpacked.

    Raises:
        IngestError: binary, damaged, no man page at all, or an mdoc(7) page where no formatter
            is installed (the message names the package).
    """
    text = decode_text(unpacked(raw), raw.path)
    if MDOC.search(text) and not MAN.search(text):
        return _read_mdoc(raw, text)
    if not re.search(r"(?m)^[.'][ \t]*[A-Za-z]", text):
        raise IngestError(
            f"{raw.path} holds no man macros (expected .TH or .Dd): give a text file the suffix "
            ".txt, or exclude it from the source"
        )
    page = ManPage(raw)
    page.run(text)
    return page.result()


def unpacked(raw: RawFile) -> bytes:
    """Return the content of a page that may be gzip-compressed.

    Raises:
        IngestError: damaged, or larger than :data:`UNPACKED_LIMIT` once unpacked.
    """
    if not raw.data.startswith(b"\x1f\x8b"):
        return raw.data
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        data = unpacker.decompress(raw.data, UNPACKED_LIMIT + 1)
    except zlib.error as exc:
        raise IngestError(f"{raw.path} is a damaged gzip file ({exc}): fetch it again") from exc
    if not unpacker.eof and len(data) <= UNPACKED_LIMIT:
        raise IngestError(f"{raw.path} is a gzip file that ends too early: fetch it again")
    if len(data) > UNPACKED_LIMIT:
        raise IngestError(
            f"{raw.path} unpacks to more than {UNPACKED_LIMIT // 1_000_000} MB, which no man page "
            "does: exclude it from the source"
        )
    return data


def _read_mdoc(raw: RawFile, text: str) -> ReadResult:
    if shutil.which("mandoc"):
        html = _formatted(raw, text, ["mandoc", "-T", "html", "-O", "fragment"])
        return _from_html(raw, text, html)
    if shutil.which("groff"):
        plain = _formatted(raw, text, ["groff", "-S", "-mandoc", "-T", "utf8", "-P", "-cbou"])
        return ReadResult(_mdoc_title(raw, text), _from_terminal(plain), metadata=_section(text))
    raise IngestError(
        f"{raw.path} is written with the mdoc macros, which need a formatter: install the package "
        "mandoc (or groff), or exclude the page"
    )


def _formatted(raw: RawFile, text: str, command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command,
            input=text.encode(),
            capture_output=True,
            timeout=FORMATTER_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise IngestError(f"{raw.path}: {command[0]} failed: {exc}") from exc
    if not done.stdout.strip():
        reason = done.stderr.decode(errors="replace").strip()[-300:]
        raise IngestError(
            f"{raw.path}: {command[0]} gave nothing (exit {done.returncode}) {reason}"
        )
    return done.stdout.decode(errors="replace")


def _from_html(raw: RawFile, text: str, html: str) -> ReadResult:
    """Read what mandoc made, without its running heads and the links of names to themselves."""
    from hpcllm.corpus.readers.html_page import blocks_of

    html = re.sub(r'(?s)<table class="(?:head|foot)">.*?</table>', "", html)
    html = re.sub(r'(?s)<a class="permalink"[^>]*>(.*?)</a>', r"\1", html)
    body, warnings = blocks_of(html)
    for block in body:
        if isinstance(block, Heading):
            block.level, block.anchor = block.level + 1, ""
    page = render(with_synopsis(body))
    return ReadResult(
        _mdoc_title(raw, text), page, metadata=_section(text), warnings=tuple(warnings)
    )


def _from_terminal(text: str) -> str:
    """Return formatted text with its section titles as headings and the rest in fences."""
    parts = re.split(r"(?m)^(\S.*)$", re.sub(r".\x08", "", text))
    sections = [f"## {parts[i].strip()}\n\n```\n{parts[i + 1].strip(chr(10))}\n```"
                for i in range(1, len(parts) - 1, 2) if parts[i + 1].strip()]  # fmt: skip
    return "\n\n".join(sections)


def _mdoc_title(raw: RawFile, text: str) -> str:
    found = re.search(r"(?m)^\.\s*Dt\s+(\S+)\s+(\S+)", text)
    return f"{found[1].lower()}({found[2]})" if found else raw.stem


def _section(text: str) -> dict[str, str]:
    found = re.search(r"(?m)^\.\s*Dt\s+\S+\s+(\S+)", text)
    return {"section": found[1]} if found else {}
