"""From the tokens of a Markdown parse to the block tree.

Role: walks markdown-it's flat tokens once. Code, tables and headings leave the lists and
quotations that hold them, so that code comes out byte for byte and a table row never loses its
header; headings inside containers become bold lines, since they name no section.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from hpcllm.corpus.readers.blocks import (
    Block,
    Code,
    Definitions,
    Heading,
    Item,
    Listing,
    Paragraph,
    Table,
    Term,
)
from hpcllm.corpus.readers.markdown_inline import HTML_TAGS, html_attributes, render_inline
from hpcllm.corpus.readers.markdown_spans import TERM_BREAK, joined_terms
from hpcllm.corpus.readers.tabs import labelled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_NESTING = 40
"""Containers within containers; deeper ones are read as text, so that no page fills the stack."""

_IAL = re.compile(r"(?:^|\n)[ \t]*\{:(?P<body>[^{}\n]*)\}[ \t]*$")
_HEADING_ATTRIBUTES = re.compile(r"[ \t]*\{:?[ ]*(?P<body>[#.][^{}]*|[\w-]+=[^{}]*)\}[ \t]*$")
_FIGURE = re.compile(r"[ ]?\[Figure: [^\]]*\]")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_ANY_TAG = re.compile(r"</?([A-Za-z][\w-]*)")
_ANCHOR_TAG = re.compile(r"<a\b[^>]*>\s*(?:</a>)?", re.IGNORECASE)


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.deflist import deflist_plugin
    from mdit_py_plugins.footnote import footnote_plugin

    parser = MarkdownIt("commonmark", {"html": True, "maxNesting": MAX_NESTING})
    parser.enable(["table", "strikethrough"])
    return parser.use(deflist_plugin).use(footnote_plugin, inline=False)


def parse_blocks(text: str, html_to_markdown: Callable[[str], str]) -> list[Block]:
    """Parse plain Markdown into top-level blocks; marks of tabs are still among them.

    Args:
        text: Markdown without block extensions (see :mod:`.markdown_lines`).
        html_to_markdown: converts an HTML fragment.
    """
    tokens = _parser().parse(joined_terms(text))
    builder = _Builder(tokens, html_to_markdown)
    return builder.top_level()


@dataclass(slots=True)
class _Builder:
    """A cursor over the tokens."""

    tokens: Sequence[Token]
    html_to_markdown: Callable[[str], str]
    position: int = 0
    depth: int = 0
    notes: dict[int, str] = field(default_factory=dict)
    anchors: list[str] = field(default_factory=list)

    def top_level(self) -> list[Block]:
        self._collect_notes()
        self.position = 0
        return self._until("")

    def _until(self, closing: str) -> list[Block]:
        """Build blocks up to the closing token, which is taken too."""
        blocks: list[Block] = []
        while self.position < len(self.tokens):
            token = self.tokens[self.position]
            self.position += 1
            if token.type == closing:
                break
            handler = getattr(self, f"_{token.type}", None)
            if handler is not None:
                self._add(blocks, handler(token))
        return blocks

    def _add(self, blocks: list[Block], new: Sequence[Block]) -> None:
        for block in new:
            if isinstance(block, Paragraph):
                block = self._without_attributes(block, blocks)
            if not isinstance(block, Paragraph) or block.text.strip():
                blocks.append(block)

    def _without_attributes(self, block: Paragraph, before: list[Block]) -> Paragraph:
        """Take kramdown attribute lists off a paragraph and apply what they say of code."""
        text = block.text
        while match := _IAL.search(text):
            text = text[: match.start()]
            language = re.search(r"\.(?:language-)?([\w+#-]+)", match.group("body"))
            last = before[-1] if before and not text.strip() else None
            if (
                language
                and isinstance(last, Code)
                and not last.language
                and "language-" in match.group("body")
            ):
                last.language = language.group(1)
        return Paragraph(text) if text != block.text else block

    def _inline(self, token: Token, line_break: str = "\n") -> str:
        rendered = render_inline(token.children or (), self.notes, line_break=line_break)
        self.anchors.extend(rendered.anchors)
        return rendered.text

    def _contained(self, closing: str) -> list[Block]:
        """Build what a container holds, with headings and tab marks as bold lines."""
        self.depth += 1
        blocks = labelled(self._until(closing))
        self.depth -= 1
        return blocks

    # ---- leaves -------------------------------------------------------------------------------

    def _paragraph_open(self, token: Token) -> list[Block]:
        inline = self.tokens[self.position]
        self.position += 2
        content = inline.content.strip()
        if content.startswith("{:") and all(map(_IAL.fullmatch, content.split("\n"))):
            return [Paragraph(content)]  # kept for _without_attributes
        if content.startswith("\ue000tab"):
            return [Paragraph(content)]
        count = len(self.anchors)
        text = self._inline(inline)
        if text:
            del self.anchors[count:]  # an anchor inside prose is not that of a later heading
        return [Paragraph(text)]

    def _heading_open(self, token: Token) -> list[Block]:
        inline = self.tokens[self.position]
        self.position += 2
        anchor = ""
        if match := _HEADING_ATTRIBUTES.search(inline.content):
            found = re.search(r"(?:#|\bid=[\"']?)([^\s\"'}]+)", match.group("body"))
            anchor = found.group(1) if found else ""
            _strip_attributes(inline, match.group())
        text = " ".join(self._inline(inline, " ").split())
        text = _FIGURE.sub("", text).strip() or text
        anchor = anchor or (self.anchors[0] if self.anchors else "")
        self.anchors.clear()
        if not text:
            return []
        if self.depth:
            return [Paragraph(text if text.startswith("**") else f"**{text}**")]
        return [Heading(int(token.tag[1]), text, anchor)]

    def _fence(self, token: Token) -> list[Block]:
        info = token.info.strip()
        word = re.match(r"\{?[ ]*\.?([\w+#./-]+)", info)
        language = word.group(1).removeprefix("language-") if word else ""
        return [Code(token.content, language, verbatim=True)] if token.content.strip() else []

    def _code_block(self, token: Token) -> list[Block]:
        return [Code(token.content, verbatim=True)] if token.content.strip() else []

    def _table_open(self, token: Token) -> list[Block]:
        rows: list[list[str]] = []
        while self.tokens[self.position].type != "table_close":
            token = self.tokens[self.position]
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                rows[-1].append(_cell(self._inline(token, "<br>")))
            self.position += 1
        self.position += 1
        return [Table(rows)]

    def _html_block(self, token: Token) -> list[Block]:
        html = _COMMENT.sub("", token.content)
        if not html.strip():
            return []
        names = {name.lower() for name in _ANY_TAG.findall(html)}
        if names and not names & HTML_TAGS:
            return [Paragraph(html.strip())]  # placeholders such as <username> on a line alone
        if not _ANCHOR_TAG.sub("", html).strip():
            found = (html_attributes(tag) for tag in _ANCHOR_TAG.findall(html))
            self.anchors.extend(filter(None, (a.get("id") or a.get("name") for a in found)))
            return []
        html = re.sub(r"<(/?)summary\b[^>]*>", _summary, html)
        return self._parsed(self.html_to_markdown(html))

    def _parsed(self, text: str) -> list[Block]:
        if not text.strip():
            return []
        nested = _Builder(_parser().parse(joined_terms(text)), _as_text, depth=self.depth)
        blocks = nested.top_level()
        return labelled(blocks) if self.depth else blocks

    # ---- containers ---------------------------------------------------------------------------

    def _blockquote_open(self, token: Token) -> list[Block]:
        return self._contained("blockquote_close")

    def _bullet_list_open(self, token: Token) -> list[Block]:
        return flat_list(self._items("bullet_list_close"), None)

    def _ordered_list_open(self, token: Token) -> list[Block]:
        start = token.attrGet("start")
        return flat_list(self._items("ordered_list_close"), 1 if start is None else int(start))

    def _items(self, closing: str) -> list[list[Block]]:
        items: list[list[Block]] = []
        while self.tokens[self.position].type != closing:
            self.position += 1
            items.append(self._contained("list_item_close"))
        self.position += 1
        return items

    def _dl_open(self, token: Token) -> list[Block]:
        items: list[Item] = []
        while self.tokens[self.position].type != "dl_close":
            token = self.tokens[self.position]
            self.position += 1
            if token.type == "dt_open":
                if not items or items[-1].body:
                    items.append(Item())
                items[-1].terms.extend(self._terms())
            elif token.type == "dd_open" and items:
                items[-1].body.extend(self._contained("dd_close"))
        self.position += 1
        return [Definitions(items)]

    def _terms(self) -> list[Term]:
        inline = self.tokens[self.position]
        self.position += 2
        count = len(self.anchors)
        text = " ".join(self._inline(inline, " ").split())
        found = self.anchors[count:]
        del self.anchors[count:]
        names = filter(None, map(str.strip, text.split(TERM_BREAK)))
        anchor = found[0] if found else ""
        return [Term(name, "" if place else anchor) for place, name in enumerate(names)]

    # ---- footnotes ----------------------------------------------------------------------------

    def _collect_notes(self) -> None:
        """Render the texts of footnotes, which the parser puts at the end of the tokens."""
        number = -1
        parts: list[str] = []
        for token in self.tokens:
            if token.type == "footnote_open":
                number, parts = int(token.meta["id"]), []
            elif token.type == "footnote_close":
                self.notes[number] = " ".join(" ".join(parts).split())
                number = -1
            elif number >= 0 and token.type == "inline":
                parts.append(render_inline(token.children or (), {}).text)
            elif number >= 0 and token.type in ("fence", "code_block"):
                parts.append(f"`{' '.join(token.content.split())}`")

    def _footnote_block_open(self, token: Token) -> list[Block]:
        while self.tokens[self.position].type != "footnote_block_close":
            self.position += 1
        self.position += 1
        return []


def _summary(match: re.Match[str]) -> str:
    return "</strong></p>" if match.group(1) else "<p><strong>"


def _as_text(html: str) -> str:
    """Return what is left of HTML that came out of a conversion of HTML: its text."""
    return re.sub(r"<[^<>]*>", "", html)


def _strip_attributes(inline: Token, attributes: str) -> None:
    """Take the attribute list off the last text of a heading."""
    for child in reversed(inline.children or ()):
        if child.type == "text" and child.content.rstrip().endswith("}"):
            child.content = child.content.rstrip().removesuffix(attributes.strip()).rstrip()
            return


def _cell(text: str) -> str:
    """Return a table cell on one line; forced breaks become semicolons where none stands."""
    text = re.sub(r"(?:\s*<br>\s*)+$|^(?:\s*<br>\s*)+", "", text)
    text = re.sub(r"([.,;:])?(?:\s*<br>\s*)+", lambda m: f"{m.group(1) or ';'} ", text)
    return " ".join(text.split())


def flat_list(items: list[list[Block]], start: int | None) -> list[Block]:
    """Return a list whose code, tables and headings stand between its parts at column 0.

    The numbers of a numbered list go on after an interruption.

    Args:
        items: the blocks of each item.
        start: number of the first item, or None for bullets.
    """
    blocks: list[Block] = []
    pending: list[list[Block]] = []
    first = start

    def finish(next_number: int) -> None:
        nonlocal pending, first
        if pending:
            blocks.append(Listing(pending, first))
        pending = []
        first = None if start is None else next_number

    for number, item in enumerate(items, start or 0):
        place = next((i for i, block in enumerate(item) if _leaves_lists(block)), len(item))
        kept, rest = item[:place], item[place:]
        if kept:
            pending.append(kept)
        elif rest and start is not None:
            pending.append([Paragraph("")])
        if rest:
            finish(number + 1)
            blocks.extend(rest)
    finish(0)
    return blocks


def _leaves_lists(block: Block) -> bool:
    return isinstance(block, (Code, Table, Heading, Definitions))


def title_heading(blocks: Sequence[Block]) -> Heading | None:
    """Return the heading that names the page, or None.

    That is the first of level 1, else one that the page begins with and that has no equal.
    """
    headings = [block for block in blocks if isinstance(block, Heading)]
    for heading in headings:
        if heading.level == 1:
            return heading
    if not headings or blocks[0] is not headings[0]:
        return None
    is_alone = all(heading.level > headings[0].level for heading in headings[1:])
    return headings[0] if is_alone else None
