"""Read HTML pages: the main content, block by block, as canonical Markdown.

Role: whole pages of any publishing system, bodies without ``<html>`` that a web server puts
together from includes (``.shtml``), and fragments that other readers come by.

Anchors are those that the page defines: the id of a heading, of the section around it, or an
``<a name>`` in or before it; likewise for terms of definition lists.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from hpcllm.corpus.readers.base import RawFile, ReadResult
from hpcllm.corpus.readers.blocks import Block, Heading, Paragraph, plain, render
from hpcllm.corpus.readers.generated import looks_generated
from hpcllm.corpus.readers.html_content import main_content, page_heading
from hpcllm.corpus.readers.html_walk import Walker

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

logger = logging.getLogger(__name__)

REFRESH = re.compile(r"(?i)url\s*=\s*['\"]?([^'\"]+)")
SITE_NAME = re.compile(r"\s+[|–—·»:]\s+|\s+-\s+")
"""What stands between a page's own title and the site's name in ``<title>``."""
NESTING_LIMIT = 1000
"""Elements within one another that are parsed as such."""
NESTED_TAG = re.compile(
    r"(?i)<(/?)(?:a|article|aside|b|big|blockquote|center|code|dir|div|dl|em|fieldset|figure|font"
    r"|form|header|i|main|menu|nav|ol|pre|s|section|small|span|strike|strong|table|tt|u|ul)\b[^<>]*>"
)
"""Tags of elements that no other tag closes, so that they can nest without end."""
REDIRECT_WORDS = 60
"""A page with a refresh and fewer words than this only points elsewhere."""


def read(raw: RawFile) -> ReadResult:
    """Turn an HTML page into canonical Markdown.

    Raises:
        IngestError: the file is binary.
    """
    text = raw.text()
    tree = _parse(text)
    language = _language(tree)
    heading, own_title = page_heading(tree), _own_title(tree)
    moved = _redirect(tree)
    generated = looks_generated(text)
    blocks, warnings = _blocks(tree)
    body = render(blocks)
    if moved and len(body.split()) < REDIRECT_WORDS:
        body = f"{body}\n\nThis page has moved to {moved}.".strip()
    elif not body:
        warnings.append("the page holds no text")
    first = next((plain(b.text) for b in blocks if isinstance(b, Heading) and b.level == 1), "")
    return ReadResult(
        title=first or heading or own_title or _first_heading(blocks) or raw.stem,
        text=body,
        language=language,
        metadata=_metadata(tree),
        status="generated" if generated or looks_generated(body) else "current",
        warnings=tuple(warnings),
    )


def blocks_of(html: str) -> tuple[list[Block], list[str]]:
    """Return the blocks of a page or fragment, and what could not be done.

    Args:
        html: the markup.
    """
    return _blocks(_parse(html))


def _parse(html: str) -> LexborHTMLParser:
    from selectolax.lexbor import LexborHTMLParser

    return LexborHTMLParser(_bounded(html))


def _bounded(html: str) -> str:
    """Return markup without the tags that nest deeper than :data:`NESTING_LIMIT`.

    The parser's time grows with the square of the depth; what is that deep was flattened anyway.
    """
    if html.count("<") <= NESTING_LIMIT:
        return html
    depth = 0

    def kept(tag: re.Match[str]) -> str:
        nonlocal depth
        if tag[1]:
            depth = max(0, depth - 1)
            return tag[0] if depth < NESTING_LIMIT else " "
        depth += 1
        return tag[0] if depth <= NESTING_LIMIT else " "

    return NESTED_TAG.sub(kept, html)


def _blocks(tree: LexborHTMLParser) -> tuple[list[Block], list[str]]:
    content = main_content(tree)
    if content is None:
        return [], []
    walker = Walker()
    blocks = walker.blocks(content)
    return [b for b in blocks if not (isinstance(b, Paragraph) and not b.text)], walker.warnings


def _language(tree: LexborHTMLParser) -> str | None:
    node = tree.css_first("html[lang], html[xml\\:lang]")
    code = (node.attributes.get("lang") or "") if node is not None else ""
    code = code.strip().replace("_", "-")
    return code if re.fullmatch(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", code) else None


def _own_title(tree: LexborHTMLParser) -> str:
    node = tree.css_first("title")
    whole = " ".join((node.text(deep=True) or "").split()) if node is not None else ""
    return SITE_NAME.split(whole, maxsplit=1)[0].strip() or whole


def _first_heading(blocks: list[Block]) -> str:
    return next((plain(block.text) for block in blocks if isinstance(block, Heading)), "")


def _redirect(tree: LexborHTMLParser) -> str:
    for node in tree.css("meta[http-equiv]"):
        if (node.attributes.get("http-equiv") or "").lower() == "refresh":
            found = REFRESH.search(node.attributes.get("content") or "")
            return found[1].strip() if found else ""
    return ""


def _metadata(tree: LexborHTMLParser) -> dict[str, str]:
    values = {}
    for node in tree.css("meta[name]"):
        name = (node.attributes.get("name") or "").lower()
        content = " ".join((node.attributes.get("content") or "").split())
        if name in ("description", "keywords", "author") and content:
            values[name] = content
    return values
