"""Markdown as Slack shows it: pieces of ``mrkdwn``, with nothing in them that Slack would act on.

Role: pure text to text, over markdown-it's tokens. Documents and models are not trusted: ``&``,
``<`` and ``>`` are escaped everywhere, so no ``<!channel>`` and no mention can come through, raw
HTML is text, and only web addresses of known hosts become links. Slack has no tables, no headings
and no nested emphasis: tables become aligned monospace, or a list where they are too wide; headings
become bold lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from mdit_py_plugins.deflist import deflist_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

TABLE_CHARACTERS = 76
"""Widest table shown in monospace; a message in a thread has room for about as much."""
URL_CHARACTERS = 1500
"""Longest address that becomes a link."""

_BULLETS = ("•", "◦", "▪")
_INDENT = "    "
_ANCHOR = re.compile(r"\s*\{#[\w.:-]+\}\s*$")
_MARK_OR_URL = re.compile(r"\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]|https?://[^\s<>\"]+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a message that is best not cut.

    Attributes:
        kind: ``text`` in mrkdwn, or ``code`` without its fence.
        text: escaped.
        head: lines of code that each part repeats where it must be cut all the same (the header of
            a table); part of ``text`` too.
    """

    kind: Literal["text", "code"]
    text: str
    head: str = ""


def escape(text: str) -> str:
    """Return plain text so that Slack shows it as it stands."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def link(url: str | None, label: str) -> str:
    """Return a link with a plain-text label, or the label alone where the address is no web one."""
    target = _target(url or "")
    shown = escape(" ".join(label.split()))
    return f"<{target}|{shown}>" if target else shown


def _target(url: str) -> str:
    parts = urlsplit(url) if len(url) <= URL_CHARACTERS else urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return ""
    for character, code in (("<", "%3C"), (">", "%3E"), ("|", "%7C"), (" ", "%20"), ("&", "&amp;")):
        url = url.replace(character, code)
    return url


def host_of(url: str | None) -> str:
    """Return the host of an address with its port, lower case; empty where it has none."""
    try:
        return urlsplit(url or "").netloc.lower()
    except ValueError:
        return ""


def render(
    markdown: str,
    *,
    url_of: Callable[[int], str | None] = lambda number: None,
    hosts: Collection[str] = (),
) -> list[Piece]:
    """Turn Markdown into pieces, in order.

    Args:
        markdown: an answer with ``[n]`` marks.
        url_of: gives the address of citation ``n``, or None; the mark becomes a link to it.
        hosts: hosts that links may lead to, such as ``docs.example.org``; the address of any other
            one is shown, and is no link.
    """
    writer = _Writer(_Inline(url_of, frozenset(hosts)))
    for node in SyntaxTreeNode(_parser().parse(markdown)).children:
        writer.block(node)
    return writer.finished()


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    return (
        MarkdownIt("commonmark", {"html": False})
        .enable(["table", "strikethrough"])
        .use(deflist_plugin)
    )


class _Inline:
    """Renders what stands within a paragraph."""

    def __init__(self, url_of: Callable[[int], str | None], hosts: frozenset[str]) -> None:
        self._url_of = url_of
        self._hosts = hosts

    def text(self, node: SyntaxTreeNode, *, bold: bool = False) -> str:
        """Return the mrkdwn of a node's children; ``bold`` says that bold is on around them."""
        return "".join(self._one(child, bold) for child in node.children)

    def _one(self, node: SyntaxTreeNode, bold: bool) -> str:
        match node.type:
            case "inline":
                return self.text(node, bold=bold)
            case "text":
                return self._prose(node.content)
            case "code_inline":
                return _code(node.content)
            case "softbreak":
                return " "
            case "hardbreak":
                return "\n"
            case "strong":
                return (
                    self.text(node, bold=True) if bold else _within("*", self.text(node, bold=True))
                )
            case "em":
                return _within("_", self.text(node, bold=bold))
            case "s":
                return _within("~", self.text(node, bold=bold))
            case "link":
                return self._link(str(node.attrs.get("href", "")), plain(node))
            case "image":
                return self._link(str(node.attrs.get("src", "")), plain(node) or "image")
            case _:
                return escape(node.content) if not node.children else self.text(node, bold=bold)

    def _link(self, url: str, label: str) -> str:
        if host_of(url) in self._hosts and _target(url):
            return link(url, label)
        if not _target(url) or label == url:
            return escape(label)
        return f"{escape(label)} ({_code(url)})"

    def _prose(self, text: str) -> str:
        pieces, done = [], 0
        for match in _MARK_OR_URL.finditer(text):
            pieces += [escape(text[done : match.start()])]
            done = match.end()
            if match.group(1):
                pieces.append(self._marks(match.group(1)))
                continue
            url = match.group().rstrip(".,;:!?)'")
            done -= len(match.group()) - len(url)
            pieces.append(f"<{_target(url)}>" if host_of(url) in self._hosts else escape(url))
        return "".join([*pieces, escape(text[done:])])

    def _marks(self, numbers: str) -> str:
        return "".join(link(self._url_of(int(n)), f"[{int(n)}]") for n in numbers.split(","))


def _within(sign: str, text: str) -> str:
    return f"{sign}{text}{sign}" if text.strip() else text


def _code(text: str) -> str:
    """Return inline code; code that holds a backtick cannot be marked and is shown plain."""
    return escape(text) if "`" in text or not text.strip() else f"`{escape(text)}`"


def plain(node: SyntaxTreeNode) -> str:
    """Return the text of a node without any formatting, not escaped."""
    if node.type in ("softbreak", "hardbreak"):
        return " "
    if node.children:
        return "".join(plain(child) for child in node.children)
    return node.content


class _Writer:
    """Collects pieces: lines of prose until code comes between them."""

    def __init__(self, inline: _Inline) -> None:
        self._inline = inline
        self._pieces: list[Piece] = []

    def finished(self) -> list[Piece]:
        return self._pieces

    def block(self, node: SyntaxTreeNode) -> None:
        """Add one block of the top level."""
        match node.type:
            case "heading":
                text = _ANCHOR.sub("", self._inline.text(node, bold=True))
                self._add(_within("*", text))
            case "fence" | "code_block":
                self._code(node.content)
            case "bullet_list" | "ordered_list":
                self._list(node, 0)
            case "table":
                self._table(node)
            case "blockquote":
                self._quote(node)
            case "dl":
                self._definitions(node)
            case "hr":
                self._add("———")
            case _:
                self._add(self._inline.text(node) if node.children else escape(node.content))

    def _add(self, text: str) -> None:
        if text.strip():
            self._pieces.append(Piece("text", text.strip("\n")))

    def _code(self, code: str, head: str = "") -> None:
        # Three backticks would end the fence; Slack knows no escape for them.
        shown = escape(code.strip("\n")).replace("```", "'''")
        if shown.strip():
            self._pieces.append(Piece("code", shown, head))

    def _list(self, node: SyntaxTreeNode, depth: int) -> None:
        lines: list[str] = []
        number = int(node.attrs.get("start", 1) or 1)
        for offset, item in enumerate(node.children):
            sign = _BULLETS[min(depth, 2)] if node.type == "bullet_list" else f"{number + offset}."
            self._item(item, f"{_INDENT * depth}{sign} ", depth, lines)
        self._add("\n".join(lines))

    def _item(self, item: SyntaxTreeNode, lead: str, depth: int, lines: list[str]) -> None:
        """Add an item's lines; whatever is not prose ends the piece before it."""
        for child in item.children:
            if child.type == "paragraph":
                text = self._inline.text(child).replace("\n", f"\n{_INDENT * (depth + 1)}")
                lines.append(f"{lead}{text}")
            elif child.type in ("bullet_list", "ordered_list"):
                inner = _Writer(self._inline)
                inner._list(child, depth + 1)
                self._take(inner, lines)
            else:
                inner = _Writer(self._inline)
                inner.block(child)
                self._take(inner, lines)
            lead = _INDENT * (depth + 1)

    def _take(self, inner: _Writer, lines: list[str]) -> None:
        for piece in inner.finished():
            if piece.kind == "text":
                lines.append(piece.text)
                continue
            self._add("\n".join(lines))
            lines.clear()
            self._pieces.append(piece)

    def _quote(self, node: SyntaxTreeNode) -> None:
        inner = _Writer(self._inline)
        for child in node.children:
            inner.block(child)
        for piece in inner.finished():
            lines = piece.text.split("\n")
            is_text = piece.kind == "text"
            self._pieces.append(
                Piece("text", "\n".join(f"> {line}" for line in lines)) if is_text else piece
            )

    def _definitions(self, node: SyntaxTreeNode) -> None:
        for child in node.children:
            if child.type == "dt":
                self._add(_within("*", _ANCHOR.sub("", self._inline.text(child, bold=True))))
                continue
            for part in child.children:
                self.block(part)

    def _table(self, node: SyntaxTreeNode) -> None:
        rows = [
            [" ".join(plain(cell).split()) for cell in row.children]
            for part in node.children
            for row in part.children
        ]
        if not rows:
            return
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        if sum(widths) + 2 * (len(widths) - 1) <= TABLE_CHARACTERS:
            self._code(*_aligned(rows, widths))
        else:
            self._add("\n".join(self._row(rows[0], row) for row in rows[1:]))

    def _row(self, names: Sequence[str], row: Sequence[str]) -> str:
        first, *others = (self._inline._prose(cell) for cell in row)
        told = [
            f"{escape(name)}: {value}" if name else value
            for name, value in zip(names[1:], others, strict=False)
            if value
        ]
        return f"• {_within('*', first)}{' — ' if told else ''}{'; '.join(told)}"


def _aligned(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> tuple[str, str]:
    """Return a table in monospace, and its head as it will be when escaped."""
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (rows[0], ["-" * width for width in widths], *rows[1:])
    ]
    return "\n".join(lines), escape("\n".join(lines[:2])) + "\n"
