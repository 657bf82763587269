"""Read plain text: paragraphs, underlined headings, and everything aligned by hand as it stands."""

from __future__ import annotations

import re

from hpcllm.corpus.readers.base import RawFile, ReadResult
from hpcllm.corpus.readers.blocks import Block, Code, Heading, Listing, Paragraph, render

UNDERLINE = re.compile(r"([=\-~^*#])\1{2,}\s*$")
ITEM = re.compile(r"(?m)^\s{0,3}(?:[-*+•]|(\d{1,3})[.)])\s+")
ALIGNED = re.compile(r"\S {3,}\S|\S\t+\S")
MARKUP = re.compile(r"(?i)\s*<(?:!doctype\s+html|html[\s>])")
TITLE_LENGTH = 100
"""Longest first line, in characters, that is taken as title."""


def read(raw: RawFile) -> ReadResult:
    """Turn a text file into canonical Markdown.

    Raises:
        IngestError: the file is binary.
    """
    text = raw.text().replace("\f", "\n\n").strip("\n")
    if MARKUP.match(text):
        from hpcllm.corpus.readers import html_page

        return html_page.read(raw)
    blocks: list[Block] = []
    for part in re.split(r"\n[ \t]*\n", text):
        if part.strip():
            blocks += _blocks(part.strip("\n"))
    heading = next((block.text for block in blocks if isinstance(block, Heading)), "")
    return ReadResult(title=heading or _first_line(text) or raw.stem, text=render(_joined(blocks)))


def _first_line(text: str) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    usable = len(first) <= TITLE_LENGTH and re.search(r"[^\W\d_]{2}", first)
    return first if usable and " " in first else ""


def _blocks(part: str) -> list[Block]:
    lines = part.splitlines()
    if len(lines) >= 2 and UNDERLINE.match(lines[1]) and len(lines[0].strip()) <= TITLE_LENGTH:
        rest = "\n".join(lines[2:])
        level = 1 if lines[1].startswith(("=", "#")) else 2
        return [Heading(level, lines[0].strip()), *(_blocks(rest) if rest.strip() else [])]
    if len(lines) == 1 and _is_capitals(lines[0]):
        return [Heading(2, lines[0].strip())]
    if _is_preformatted(lines):
        return [Code(part)]
    return _prose(part)


def _is_capitals(line: str) -> bool:
    text = line.strip()
    return (
        text.isupper()
        and 4 <= len(text) <= 60
        and not line.startswith(" ")
        and text[-1] not in ".;,"
    )


def _is_preformatted(lines: list[str]) -> bool:
    """Say whether lines are aligned by hand or indented as code, so that joining would harm."""
    indented = all(line.startswith(("    ", "\t")) for line in lines)
    aligned = sum(ALIGNED.search(line.strip()) is not None for line in lines)
    shell = sum(re.match(r"\s*[$#%>] ?\S|#!", line) is not None for line in lines)
    return indented or 2 * aligned >= len(lines) or (2 * shell > len(lines))


def _prose(part: str) -> list[Block]:
    first = ITEM.match(part)
    if not first:
        return [Paragraph("\n".join(line.strip() for line in part.splitlines()))]
    starts = [found.start() for found in ITEM.finditer(part)]
    items = [part[a:b] for a, b in zip(starts, [*starts[1:], len(part)], strict=True)]
    content: list[list[Block]] = [[Paragraph(" ".join(ITEM.sub("", i, 1).split()))] for i in items]
    return [Listing(content, int(first[1]) if first[1] else None)]


def _joined(blocks: list[Block]) -> list[Block]:
    """Join preformatted blocks that only a blank line parted."""
    result: list[Block] = []
    for block in blocks:
        last = result[-1] if result else None
        if isinstance(block, Code) and isinstance(last, Code):
            last.text += f"\n\n{block.text}"
        else:
            result.append(block)
    return result
