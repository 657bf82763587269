"""Walk the nodes of an HTML page and build blocks.

Role: the middle step of :mod:`hpcllm.corpus.readers.html_page`, between finding the content and
rendering it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hpcllm.corpus.readers.blocks import (
    Block,
    Code,
    Definitions,
    Heading,
    Item,
    Listing,
    Paragraph,
    Quote,
    Table,
    Term,
    cell_text,
    is_simple,
)
from hpcllm.corpus.readers.html_inline import (
    BREAK,
    DROPPED,
    children,
    collapse,
    inline,
    inline_children,
    joined,
)

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
BLOCKS = frozenset(
    ("address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details",
     "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form",
     "header", "hgroup", "hr", "html", "legend", "li", "main", "menu", "nav", "ol", "p", "pre",
     "search", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
     "listing", "xmp", "plaintext", *HEADINGS)
)  # fmt: skip
TRANSPARENT = frozenset(
    ("article", "body", "center", "div", "dl", "dt", "header", "hgroup", "main", "p", "section")
)
"""Blocks that an anchor before them may pass into, on to the first heading or term."""
LANGUAGE = re.compile(
    r"(?:^|\s)(?:highlight-source-|highlight-|language-|lang-|brush:\s*|sourceCode\s+|src-|src\s+src-)"
    r"([A-Za-z][\w+#.-]*)"
)
NO_LANGUAGE = frozenset(("default", "none", "text", "plaintext", "txt", "notranslate", "literal"))
DEPTH_LIMIT = 150
"""Nesting below which only the text is taken; no page for people comes near it."""
SPAN_LIMIT = 100
"""Rows or columns that one cell can span."""
BOLD_TITLE_CHARACTERS = 200
"""Longest bold beginning of a paragraph that is taken for a heading."""


@dataclass(slots=True)
class Walker:
    """Turns nodes into blocks.

    Attributes:
        warnings: what could not be done.
        pending: anchor that stood before the block to come, or empty.
        enclosing: how many lists, tables and definition lists are around the node.
        level: level of the last heading that was marked up as one.
    """

    warnings: list[str] = field(default_factory=list)
    pending: str = ""
    enclosing: int = 0
    level: int = 1

    def blocks(self, node: LexborNode, depth: int = 0) -> list[Block]:
        """Return the blocks inside ``node``, in reading order."""
        if depth > DEPTH_LIMIT:
            if not self.warnings:
                self.warnings.append(f"elements nest more than {DEPTH_LIMIT} deep: flattened there")
            return [Paragraph(collapse(node.text(deep=True, separator=" ") or ""))]
        return self._blocks_of(children(node), depth)

    def _blocks_of(self, nodes: list[LexborNode], depth: int) -> list[Block]:
        found: list[Block] = []
        prose: list[tuple[str, str]] = []
        for child in nodes:
            tag = child.tag or ""
            if tag in DROPPED:
                continue
            if tag in BLOCKS or self._holds_blocks(child):
                self._flush(prose, found)
                found += self._block(child, tag, depth)
            else:
                self._note_anchor(child, tag, prose)
                prose.append((tag, inline(child)))
        self._flush(prose, found)
        return found

    def _holds_blocks(self, node: LexborNode) -> bool:
        """Say whether an inline element has block content, as old pages and links do."""
        if node.tag == "-text" or node.child is None:
            return False
        found = node.css_first("p, div, table, ul, ol, dl, pre, h1, h2, h3, h4, h5, h6, blockquote")
        return found is not None

    def _flush(self, prose: list[tuple[str, str]], found: list[Block]) -> None:
        text = collapse(joined(prose))
        prose.clear()
        if text:
            self.pending = ""
            found.append(Paragraph(text))

    def _note_anchor(self, node: LexborNode, tag: str, prose: list[tuple[str, str]]) -> None:
        anchor = _id(node) if tag in ("a", "span") else ""
        if anchor and not any(text.strip() for _, text in prose):
            self.pending = self.pending or anchor

    def _block(self, node: LexborNode, tag: str, depth: int) -> list[Block]:
        if tag in HEADINGS:
            return self._heading(node, int(tag[1]), depth)
        if tag not in TRANSPARENT:
            self.pending = ""
        if tag in ("pre", "listing", "xmp", "plaintext"):
            return [Code(_raw(node), _language(node))]
        if tag in ("ul", "ol", "menu", "dir"):
            return self._list(node, tag, depth)
        if tag == "dl":
            return self._definitions(node, depth)
        if tag == "table":
            return self._table(node, depth)
        if tag == "blockquote":
            inner = self.blocks(node, depth + 1)
            return [Quote(inner)] if inner else []
        if tag in ("section", "div"):
            return self._division(node, depth)
        if tag == "p" and not self.enclosing:
            return self._paragraph(node, depth)
        if tag in ("summary", "legend", "figcaption"):
            return self._label(node, bold=tag != "figcaption")
        return self.blocks(node, depth + 1)

    def _paragraph(self, node: LexborNode, depth: int) -> list[Block]:
        """Take a bold line that begins a paragraph for a heading where links lead to it.

        Lists of questions are written so: ``<p><a id="x"><b>Why?</b></a><br>Because ...``.
        """
        parts = children(node)
        shown = [i for i, part in enumerate(parts) if not _is_blank(part)]
        mark = ""
        if len(shown) > 1 and parts[shown[0]].tag == "a" and not _text_of(parts[shown[0]]):
            mark = _id(parts[shown.pop(0)])
        if shown and (len(shown) == 1 or parts[shown[1]].tag == "br"):
            title, anchor = _bold_title(parts[shown[0]])
            rest = parts[shown[0] + 1 :]
            anchor = anchor or mark or self.pending or _id(node)
            if title and (anchor or title.endswith("?")):
                self.pending = ""
                heading = Heading(min(self.level + 1, 6), title, anchor)
                return [heading, *self._blocks_of(rest, depth + 1)]
        return self._blocks_of(parts, depth + 1)

    def _division(self, node: LexborNode, depth: int) -> list[Block]:
        if "tabbed-set" in _classes(node):
            return self._tabs(node, depth)
        if _is_section(node):
            self.pending = _id(node) or self.pending
        return [*_panel_label(node), *self.blocks(node, depth + 1)]

    def _heading(self, node: LexborNode, level: int, depth: int) -> list[Block]:
        anchor = _id(node) or _inner_anchor(node) or self.pending
        self.pending = ""
        if node.css_first("pre, table, ul, ol, p, h1, h2, h3, h4, h5, h6") is not None:
            # Not closed where it ends: the parser puts all that follows inside it.
            return self._open_heading(node, level, anchor, depth)
        text = collapse(inline_children(node)).replace("\n", " ")
        return self._titled(text, level, anchor)

    def _titled(self, text: str, level: int, anchor: str) -> list[Block]:
        if not text:
            return []
        if self.enclosing:
            return [Paragraph(text if text.startswith("**") else f"**{text}**")]
        self.level = level
        return [Heading(level, text, anchor)]

    def _open_heading(self, node: LexborNode, level: int, anchor: str, depth: int) -> list[Block]:
        inner = self.blocks(node, depth + 1)
        if inner and isinstance(inner[0], Paragraph):
            return [*self._titled(inner[0].text.replace("\n", " "), level, anchor), *inner[1:]]
        return inner

    def _label(self, node: LexborNode, bold: bool) -> list[Block]:
        text = collapse(inline_children(node)).replace("\n", " ")
        marked = f"**{text}**" if bold and "**" not in text else text
        return [Paragraph(marked)] if text else []

    # Lists

    def _list(self, node: LexborNode, tag: str, depth: int) -> list[Block]:
        self.enclosing += 1
        listing = Listing(start=_start(node) if tag == "ol" else None)
        for child in children(node):
            if child.tag == "li":
                listing.items.append(self.blocks(child, depth + 1))
            elif child.tag in ("ul", "ol") and listing.items:
                listing.items[-1] += self._list(child, child.tag, depth + 1)
            elif child.tag not in DROPPED:
                self._stray(child, listing, depth)
        self.enclosing -= 1
        listing.items = [item for item in listing.items if item]
        return [listing] if listing.items else []

    def _stray(self, child: LexborNode, listing: Listing, depth: int) -> None:
        """Keep what stands between the items of a list."""
        tag = child.tag or ""
        inner = self._block(child, tag, depth + 1) if tag in BLOCKS else []
        text = "" if inner else collapse(inline(child))
        inner = inner or ([Paragraph(text)] if text else [])
        if inner and listing.items:
            listing.items[-1] += inner
        elif inner:
            listing.items.append(inner)

    def _definitions(self, node: LexborNode, depth: int) -> list[Block]:
        self.enclosing += 1
        items: list[Item] = []
        for child in _definition_parts(node):
            if child.tag == "dt":
                if not items or items[-1].body:
                    items.append(Item())
                items[-1].terms += self._term(child)
            else:
                body = (
                    self.blocks(child, depth + 1)
                    if child.tag == "dd"
                    else self._loose(child, depth)
                )
                if body and not items:
                    items.append(Item())
                if body:
                    items[-1].body += body
        self.enclosing -= 1
        items = [item for item in items if item.terms or item.body]
        return [Definitions(items)] if items else []

    def _term(self, node: LexborNode) -> list[Term]:
        anchor = _id(node) or _inner_anchor(node) or self.pending
        self.pending = ""
        whole = collapse(inline_children(node))
        lines = [line.strip() for line in whole.split("\n") if line.strip()]
        return [Term(line, "" if place else anchor) for place, line in enumerate(lines)]

    def _loose(self, node: LexborNode, depth: int) -> list[Block]:
        tag = node.tag or ""
        if tag in BLOCKS:
            return self._block(node, tag, depth + 1)
        text = collapse(inline(node))
        return [Paragraph(text)] if text else []

    # Tables

    def _table(self, node: LexborNode, depth: int) -> list[Block]:
        code = node.css_first("td.code pre, td.rouge-code pre, td.gutter + td pre")
        if code is not None:
            return [Code(_raw(code), _language(node))]
        self.enclosing += 1
        rows = [_cells(row) for row in _rows_of(node)]
        content = [[self.blocks(cell, depth + 1) for cell in row] for row in rows]
        self.enclosing -= 1
        caption = node.css_first("caption")
        title = collapse(inline_children(caption)) if caption is not None else ""
        if _is_layout(rows, content):
            inner = [block for row in content for cell in row for block in cell]
            return [*([Paragraph(title)] if title else []), *inner]
        grid = _grid(rows, [[cell_text(cell) for cell in row] for row in content])
        table = Table(_with_header(node, rows, grid), title)
        return [table] if any(any(row) for row in grid) or title else []

    def _tabs(self, node: LexborNode, depth: int) -> list[Block]:
        """Put the label of each tab before its content, where the labels stand apart."""
        labels = [collapse(inline_children(label)) for label in node.css("label")]
        holder = node.css_first(".tabbed-content")
        if holder is None:
            return self.blocks(node, depth + 1)
        found: list[Block] = []
        panels = [child for child in children(holder) if child.tag == "div"]
        for place, panel in enumerate(panels):
            if place < len(labels) and labels[place]:
                found.append(Paragraph(f"**{labels[place]}**"))
            found += self.blocks(panel, depth + 1)
        return found


def _classes(node: LexborNode) -> list[str]:
    return (node.attributes.get("class") or "").split()


def _id(node: LexborNode) -> str:
    return (node.attributes.get("id") or node.attributes.get("name") or "").strip()


def _inner_anchor(node: LexborNode) -> str:
    found = node.css_first("a[id], a[name], span[id]")
    return _id(found) if found is not None else ""


def _text_of(node: LexborNode) -> str:
    return collapse(node.text(deep=True) or "")


def _is_blank(node: LexborNode) -> bool:
    tag = node.tag or ""
    return tag in DROPPED or (tag == "-text" and not (node.text_content or "").strip())


def _bold_title(node: LexborNode) -> tuple[str, str]:
    """Return the words of an element that is bold as a whole, or none, and the anchor in it."""
    bold = node if node.tag in ("b", "strong") else node.css_first("b, strong")
    if node.tag not in ("a", "span", "b", "strong") or bold is None:
        return "", ""
    text = collapse(inline_children(bold)).replace("\n", " ")
    if _text_of(bold) != _text_of(node) or len(text) > BOLD_TITLE_CHARACTERS:
        return "", ""
    return text, (_id(node) if node.tag in ("a", "span") else "") or _inner_anchor(node)


def _is_section(node: LexborNode) -> bool:
    """Say whether a division is a section with its heading first, as Sphinx and Org write them."""
    first = next((c for c in children(node) if c.tag not in ("-text", "-comment", "span")), None)
    return first is not None and (first.tag or "") in HEADINGS


def _panel_label(node: LexborNode) -> list[Block]:
    """Return the title of an admonition-like box whose class alone names it, or of a tab panel."""
    classes = _classes(node)
    if (node.attributes.get("role") or "") == "tabpanel":
        label = node.attributes.get("aria-label") or ""
        return [Paragraph(f"**{label}**")] if label else []
    kinds = [
        c.removeprefix("note") for c in classes if re.fullmatch(r"note(important|warning|tip)", c)
    ]
    return [Paragraph(f"**{kinds[0].capitalize()}**")] if kinds else []


def _raw(node: LexborNode) -> str:
    """Return the text of a preformatted element, breaks as line feeds."""
    parts: list[str] = []
    stack = [node]
    while stack:
        current = stack.pop()
        if current.tag == "-text":
            parts.append(current.text_content or "")
        elif current.tag == "br":
            parts.append("\n")
        elif current.tag not in DROPPED:
            stack += children(current)[::-1]
    return "".join(parts).replace("\xa0", " ").replace("\u200b", "")


def _language(node: LexborNode) -> str:
    """Return the language of code from the classes of the element, inside it or around it."""
    inner = node.css_first("code[class], pre[class]")
    candidates = [node, inner, node.parent, node.parent.parent if node.parent is not None else None]
    for candidate in candidates:
        if candidate is None:
            continue
        classes = candidate.attributes.get("class") or ""
        found = LANGUAGE.search(classes) or _plain_language(candidate, classes)
        if found:
            name = found[1].lower()
            return "" if name in NO_LANGUAGE else name
    return candidates[0].attributes.get("data-lang") or "" if candidates[0] is not None else ""


def _plain_language(node: LexborNode, classes: str) -> re.Match[str] | None:
    """Match the bare class that DokuWiki and Pandoc give code: ``<pre class="code bash">``."""
    if node.tag not in ("pre", "code"):
        return None
    return re.match(r"(?:(?:code|file|sourceCode|programlisting)\s+)+([a-z][\w+-]*)$", classes)


def _start(node: LexborNode) -> int:
    text = node.attributes.get("start") or "1"
    return int(text) if re.fullmatch(r"\d{1,6}", text) else 1


def _definition_parts(node: LexborNode) -> list[LexborNode]:
    """Return the terms and texts of a definition list, those wrapped in divisions included."""
    parts: list[LexborNode] = []
    for child in children(node):
        if child.tag == "div" and child.css_first("dt") is not None:
            parts += [inner for inner in children(child) if inner.tag not in DROPPED]
        elif child.tag not in DROPPED:
            parts.append(child)
    return parts


def _rows_of(node: LexborNode) -> list[LexborNode]:
    """Return the rows of a table, without those of tables inside it."""
    rows: list[LexborNode] = []
    for child in children(node):
        if child.tag == "tr":
            rows.append(child)
        elif child.tag in ("thead", "tbody", "tfoot"):
            rows += [row for row in children(child) if row.tag == "tr"]
    return rows


def _cells(row: LexborNode) -> list[LexborNode]:
    return [cell for cell in children(row) if cell.tag in ("td", "th")]


def _is_layout(rows: list[list[LexborNode]], content: list[list[list[Block]]]) -> bool:
    """Say whether a table only arranges: one column, or cells that hold more than a cell can."""
    if rows and max(map(len, rows)) < 2 and not any(c.tag == "th" for row in rows for c in row):
        return True
    return not all(is_simple(cell) for row in content for cell in row)


def _span(cell: LexborNode, name: str) -> int:
    text = cell.attributes.get(name) or "1"
    return max(1, min(int(text), SPAN_LIMIT)) if re.fullmatch(r"\d{1,6}", text) else 1


def _grid(rows: list[list[LexborNode]], texts: list[list[str]]) -> list[list[str]]:
    """Lay cells out: one over several rows is repeated in each, one over several columns is not."""
    grid: list[list[str]] = []
    hanging: dict[int, tuple[int, str]] = {}
    for cells, row_texts in zip(rows, texts, strict=True):
        row: list[str] = []
        _fill(row, hanging)
        for cell, text in zip(cells, row_texts, strict=True):
            for extra in range(_span(cell, "colspan")):
                down = _span(cell, "rowspan")
                if down > 1:
                    hanging[len(row)] = (down, "" if extra else text)
                row.append("" if extra else text)
            _fill(row, hanging)
        hanging = {column: (n - 1, text) for column, (n, text) in hanging.items() if n > 1}
        grid.append(row)
    return grid


def _fill(row: list[str], hanging: dict[int, tuple[int, str]]) -> None:
    """Add the cells that hang down from rows above into the next places of ``row``."""
    while len(row) in hanging:
        row.append(hanging[len(row)][1])


def _with_header(
    node: LexborNode, rows: list[list[LexborNode]], grid: list[list[str]]
) -> list[list[str]]:
    """Return the rows with exactly one header row first; an empty one where there is none."""
    heads = 0
    while heads < len(rows) and rows[heads] and all(c.tag == "th" for c in rows[heads]):
        heads += 1
    if heads > 1 and heads < len(rows):
        width = max(len(row) for row in grid[:heads])
        above = [row + [""] * (width - len(row)) for row in grid[:heads]]
        merged = [
            " ".join(dict.fromkeys(filter(None, column))) for column in zip(*above, strict=True)
        ]
        return [merged, *grid[heads:]]
    row_headed = not heads and len(rows) > 0 and rows[0] and rows[0][0].tag == "th"
    if row_headed and node.css_first("thead") is None:
        return [[""] * max(map(len, grid)), *grid]
    return grid


__all__ = ["BREAK", "Walker"]
