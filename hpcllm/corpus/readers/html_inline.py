"""Inline content of HTML pages as inline Markdown.

Role: the lower half of :mod:`hpcllm.corpus.readers.html_page`; knows nodes, not pages.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hpcllm.corpus.readers.base import is_badge
from hpcllm.corpus.readers.blocks import code_span, emphasised

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

BREAK = "\x1e"
"""Stands for a line break until white space has been collapsed."""
CODE_TAGS = frozenset(("code", "tt", "kbd", "samp"))
MARKS = {"b": "**", "strong": "**", "i": "*", "em": "*", "del": "~~", "s": "~~", "strike": "~~"}
DROPPED = frozenset(
    ("script", "style", "noscript", "template", "iframe", "svg", "canvas", "object", "embed",
     "audio", "video", "head", "title", "meta", "link", "datalist", "-comment", "_comment")
)  # fmt: skip
SUPERSCRIPT_BASE = re.compile(r"[\w)\]]$")
BACK_MARK = re.compile(r"[↩↵⏎¶⬆↑\ufe0e\ufe0f]+")
"""What a link back to a reference, or to the heading itself, shows."""
IMAGE_NAME = re.compile(r"\.(png|jpe?g|gif|svg|webp|bmp|ico)$", re.IGNORECASE)


def collapse(text: str) -> str:
    """Return inline text with white space collapsed and breaks as line feeds."""
    text = re.sub(r"[ \t\r\n\f\xa0\u200b]+", " ", text)
    return re.sub(rf" ?{BREAK} ?", "\n", text).strip().strip("\n")


def inline(node: LexborNode, depth: int = 0) -> str:
    """Return a node and what is inside it as inline Markdown, white space as it stands."""
    tag = node.tag or ""
    if tag == "-text":
        return node.text_content or ""
    if tag in DROPPED or depth > 100:
        return (node.text(deep=True) or "") if depth > 100 and tag not in DROPPED else ""
    if tag == "br":
        return BREAK
    if tag == "img":
        return image_text(node)
    if tag == "input":
        return _checkbox(node)
    if tag in CODE_TAGS:
        return _code(node)
    return _wrapped(tag, node, inline_children(node, depth))


def inline_children(node: LexborNode, depth: int = 0) -> str:
    """Return everything inside a node as inline Markdown."""
    return joined([(child.tag or "", inline(child, depth + 1)) for child in children(node)])


def joined(parts: list[tuple[str, str]]) -> str:
    """Join pieces of inline text, each with its tag; superscripts stay apart from their base.

    >>> joined([("-text", "10"), ("sup", "6")])
    '10^6'
    """
    text = ""
    for tag, part in parts:
        power = tag == "sup" and SUPERSCRIPT_BASE.search(text) and re.match(r"[-+\w]", part)
        text += f"^{part}" if power else part
    return text


def children(node: LexborNode) -> list[LexborNode]:
    """Return the direct children of a node, text included."""
    return list(node.iter(include_text=True))


def image_text(node: LexborNode) -> str:
    """Return an image's alternative text, unless that is a file name or the image a badge."""
    text = (node.attributes.get("alt") or "").strip()
    is_named = IMAGE_NAME.search(text) or is_badge(node.attributes.get("src") or "")
    return "" if is_named else text


def _wrapped(tag: str, node: LexborNode, text: str) -> str:
    if tag in MARKS and BREAK not in text and "\n" not in text.strip():
        return emphasised(text, MARKS[tag])
    if tag in MARKS:
        return emphasised(re.sub(r"\s+", " ", text), MARKS[tag]) if BREAK not in text else text
    if tag == "a":
        return _link(node, text)
    if tag == "q":
        return f"“{text}”"
    return text


def _code(node: LexborNode) -> str:
    inner = node.css_first("a[href]")
    text = (node.text(deep=True) or "").replace("\xa0", " ")
    span = code_span(text)
    if inner is not None and (inner.text(deep=True) or "").strip() == text.strip():
        span = _link(inner, span)
    lead = " " if text[:1].isspace() else ""
    return f"{lead}{span}{' ' if span and text[-1:].isspace() else ''}"


def _link(node: LexborNode, text: str) -> str:
    target = (node.attributes.get("href") or "").strip()
    label = collapse(text).replace("\n", " ")
    bare = label.strip("*`")
    if BACK_MARK.fullmatch(bare):
        return ""
    if not bare or not target or re.match(r"(?i)\s*(javascript|data|vbscript):", target):
        return text
    if bare in (target, target.removeprefix("mailto:"), target.rstrip("/")):
        return text
    target = re.sub(r"\s", "%20", target).replace("(", "%28").replace(")", "%29")
    lead = " " if text[:1].isspace() else ""
    tail = " " if text[-1:].isspace() else ""
    return f"{lead}[{label}]({target}){tail}"


def _checkbox(node: LexborNode) -> str:
    if (node.attributes.get("type") or "").lower() != "checkbox":
        return ""
    return "[x] " if "checked" in node.attributes else "[ ] "
