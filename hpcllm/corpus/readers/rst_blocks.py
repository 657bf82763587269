"""From a docutils tree to the block tree.

Role: walks the document once. System messages of docutils never reach the text; where one holds
text that docutils could not parse (a malformed table), that text is kept as it is and a warning
says so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes

from hpcllm.corpus.readers.base import anchor_of
from hpcllm.corpus.readers.blocks import (
    Block,
    Code,
    Definitions,
    Heading,
    Item,
    Paragraph,
    Table,
    Term,
    cell_text,
    emphasised,
    is_simple,
    plain,
)
from hpcllm.corpus.readers.markdown_blocks import flat_list, parse_blocks
from hpcllm.corpus.readers.markdown_inline import code_text, figure_text, tidy_lines
from hpcllm.corpus.readers.rst_directives import KIND, LINES_BEFORE, PAGE_END, SUBSTITUTES
from hpcllm.corpus.readers.rst_tables import as_sections, joined_header
from hpcllm.corpus.readers.tabs import TAB_MARK, TABS_END_MARK, TABS_START_MARK, labelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

SEVERE_LEVEL = 3
"""docutils level from which a message can hold text that is found nowhere else."""

_NO_TEXT = (
    nodes.comment, nodes.substitution_definition, nodes.target, nodes.pending, nodes.transition,
    nodes.footnote, nodes.citation, nodes.meta, nodes.decoration,
)  # fmt: skip


class Walker:
    """Turns nodes into blocks.

    Attributes:
        warnings: what could not be parsed.
        metadata: fields that stand at the top of the page, and ``meta`` directives.
    """

    def __init__(self, document: nodes.document, html_to_markdown: Callable[[str], str]) -> None:
        self.document = document
        self.html_to_markdown = html_to_markdown
        self.warnings: list[str] = []
        self.metadata: dict[str, str] = {}
        self.level = 0
        self.depth = 0
        self.has_text = False
        self.has_ended = False
        self.notes = _notes(document)
        self.noted: set[str] = set()

    def blocks(self, children: Iterable[nodes.Node]) -> list[Block]:
        """Return the blocks of sibling nodes."""
        out: list[Block] = []
        for child in children:
            out.extend(self._block(child))
        return out

    def _block(self, node: nodes.Node) -> list[Block]:
        if self.has_ended:
            return []
        blocks = self._made(node)
        self.has_text = self.has_text or bool(blocks)
        return blocks

    def _made(self, node: nodes.Node) -> list[Block]:
        if isinstance(node, _NO_TEXT):
            return self._metadata(node)
        handler = getattr(self, f"_{type(node).__name__}", None)
        if handler is not None:
            return list(handler(node))
        if isinstance(node, nodes.Admonition):
            return self._labelled(type(node).__name__.capitalize(), self.blocks(node.children))
        if isinstance(node, (nodes.Inline, nodes.Text)):
            text = self.inline([node])
            return [Paragraph(text)] if text.strip() else []
        return self.blocks(node.children)

    def _metadata(self, node: nodes.Node) -> list[Block]:
        if isinstance(node, nodes.meta) and node.get("name"):
            self.metadata[str(node["name"])] = str(node.get("content", ""))
        return []

    def _contained(self, children: Iterable[nodes.Node]) -> list[Block]:
        self.depth += 1
        blocks = labelled(self.blocks(children))
        self.depth -= 1
        return blocks

    # ---- structure ----------------------------------------------------------------------------

    def _section(self, node: nodes.section) -> list[Block]:
        self.level += 1
        blocks = self.blocks(node.children)
        self.level -= 1
        return blocks

    def _title(self, node: nodes.title) -> list[Block]:
        text = " ".join(self.inline(node.children).split())
        if not text:
            return []
        if self.depth or not isinstance(node.parent, nodes.section):
            return [Paragraph(f"**{plain(text)}**")]
        ids = _strings(node.parent, "ids")
        anchor = ids[-1] if ids else ""
        return [
            Heading(
                min(6, max(1, self.level)), text, "" if anchor == anchor_of(plain(text)) else anchor
            )
        ]

    _subtitle = _title

    def _rubric(self, node: nodes.rubric) -> list[Block]:
        """Return a rubric as a bold line: it heads a stretch of text and names no section."""
        text = plain(" ".join(self.inline(node.children).split()))
        return [Paragraph(f"**{text}**")] if text else []

    def _paragraph(self, node: nodes.Element) -> list[Block]:
        text = tidy_lines(self.inline(node.children))
        return [Paragraph(text)] if text else []

    _caption = _paragraph
    _attribution = _paragraph

    def _container(self, node: nodes.container) -> list[Block]:
        kind, label = node.get(KIND, ""), self._substituted(str(node.get("label", "")))
        if kind == PAGE_END:
            self.has_ended = True
            return []
        if kind == "markdown":
            blocks = parse_blocks(node["text"], self.html_to_markdown)
            return self._under_section(blocks)
        inside = self.blocks(node.children)
        if kind == "tabs":
            return [Paragraph(TABS_START_MARK), *inside, Paragraph(TABS_END_MARK)]
        if kind == "tab":
            return [Paragraph(TAB_MARK + label), *inside]
        if kind == "folded":
            mark = Paragraph(TAB_MARK + label)
            return [Paragraph(TABS_START_MARK), mark, *inside, Paragraph(TABS_END_MARK)]
        if kind == "labelled":
            return self._labelled(label, inside)
        if kind == "object":
            return [
                Definitions([Item([Term(f"`{term}`") for term in node["terms"]], labelled(inside))])
            ]
        return inside

    def _substituted(self, text: str) -> str:
        """Put the page's substitutions into text that docutils kept as a plain string."""
        known = self.document.substitution_defs
        found = re.compile(r"\|([^|\s](?:[^|\n]*[^|\s])?)\|")
        return found.sub(lambda m: known[m[1]].astext() if m[1] in known else m[0], text)

    def _under_section(self, blocks: list[Block]) -> list[Block]:
        """Move the headings of an included Markdown file below the section it stands in."""
        for block in blocks:
            if isinstance(block, Heading):
                block.level = min(6, block.level + self.level)
        return labelled(blocks) if self.depth else blocks

    def _labelled(self, label: str, inside: list[Block]) -> list[Block]:
        if not inside:
            return []
        first = inside[0]
        if isinstance(first, Paragraph) and first.text == f"**{label}**":
            return inside
        if isinstance(first, Paragraph) and label.startswith(
            ("Added", "Changed", "Deprecated", "Removed")
        ):
            return [Paragraph(f"**{label}** {first.text}"), *inside[1:]]
        return [Paragraph(f"**{label}:**"), *inside] if label else inside

    def _admonition(self, node: nodes.admonition) -> list[Block]:
        return self.blocks(node.children)

    def _system_message(self, node: nodes.system_message) -> list[Block]:
        if node.get("level", 0) < SEVERE_LEVEL:
            return []
        lost = [child for child in node.children if isinstance(child, nodes.literal_block)]
        reason = " ".join(node.children[0].astext().split()) if node.children else ""
        source, line = node.get("source"), node.get("line")
        is_own = not source or source == self.document["source"]
        place = (
            f"line {(line or LINES_BEFORE + 1) - LINES_BEFORE}"
            if is_own
            else f"{source}: line {line}"
        )
        if lost or not reason.startswith(("Unknown target", "Undefined substitution", "Duplicate")):
            self.warnings.append(f"{place}: {reason}")
        if "title" in reason.lower():
            return [Paragraph(f"**{_title_line(child.astext())}**") for child in lost]
        return [Code(child.astext(), verbatim=True) for child in lost]

    # ---- leaves -------------------------------------------------------------------------------

    def _literal_block(self, node: nodes.literal_block) -> list[Block]:
        language = str(node.get("language", ""))
        classes = [name for name in _strings(node, "classes") if name != "code"]
        code = self._substituted(node.astext()) if node.get(SUBSTITUTES) else node.astext()
        return (
            [Code(code, language or (classes[0] if classes else ""), verbatim=True)]
            if code.strip()
            else []
        )

    def _doctest_block(self, node: nodes.doctest_block) -> list[Block]:
        return [Code(node.astext(), "python", verbatim=True)]

    def _math_block(self, node: nodes.math_block) -> list[Block]:
        return [Paragraph(f"$${node.astext()}$$")]

    def _raw(self, node: nodes.raw) -> list[Block]:
        formats = str(node.get("format", "")).split()
        if "html" not in formats:
            return []
        markdown = self.html_to_markdown(node.astext())
        if not markdown.strip():
            return []
        return self._under_section(parse_blocks(markdown, self.html_to_markdown))

    def _image(self, node: nodes.image) -> list[Block]:
        text = figure_text(str(node.get("alt", "")), str(node.get("uri", "")))
        return [Paragraph(text)] if text else []

    def _line_block(self, node: nodes.line_block) -> list[Block]:
        text = "\n".join(_lines_of(node, self))
        return [Paragraph(text)] if text.strip() else []

    def _problematic(self, node: nodes.problematic) -> list[Block]:
        return [Paragraph(_readable(node.astext()))]

    # ---- lists --------------------------------------------------------------------------------

    def _bullet_list(self, node: nodes.bullet_list) -> list[Block]:
        return flat_list([self._contained(item.children) for item in node.children], None)

    def _enumerated_list(self, node: nodes.enumerated_list) -> list[Block]:
        items = [self._contained(item.children) for item in node.children]
        return flat_list(items, int(node.get("start", 1)))

    def _definition_list(self, node: nodes.definition_list) -> list[Block]:
        return [Definitions([self._definition(item) for item in node.children])]

    def _definition(self, node: nodes.Node) -> Item:
        item = Item()
        for child in node.children:
            if isinstance(child, nodes.term):
                ids = [name for name in _strings(child, "ids") if not re.fullmatch(r"id\d+", name)]
                item.terms.append(Term(self._one_line(child), ids[-1] if ids else ""))
            elif isinstance(child, nodes.classifier) and item.terms:
                item.terms[-1].text += f" : {self._one_line(child)}"
            elif isinstance(child, nodes.definition):
                item.body.extend(self._contained(child.children))
        return item

    def _option_list(self, node: nodes.option_list) -> list[Block]:
        items: list[Item] = []
        for entry in node.children:
            names = ", ".join(option.astext() for option in entry.children[0].children)
            items.append(Item([Term(f"`{names}`")], self._contained(entry.children[1].children)))
        return [Definitions(items)]

    def _field_list(self, node: nodes.field_list) -> list[Block]:
        if node.parent is self.document and not self.has_text:
            for entry in node.children:
                self.metadata[entry.children[0].astext()] = " ".join(
                    entry.children[1].astext().split()
                )
            return []
        return flat_list([self._field(entry) for entry in node.children], None)

    def _docinfo(self, node: nodes.Element) -> list[Block]:
        return []

    def _field(self, node: nodes.Node) -> list[Block]:
        name = self._one_line(node.children[0])
        body = self._contained(node.children[1].children)
        if body and isinstance(body[0], Paragraph):
            return [Paragraph(f"{name}: {body[0].text}"), *body[1:]]
        return [Paragraph(f"{name}:"), *body]

    # ---- tables -------------------------------------------------------------------------------

    def _table(self, node: nodes.table) -> list[Block]:
        captions = [
            self._one_line(child) for child in node.children if isinstance(child, nodes.title)
        ]
        caption = captions[0] if captions else ""
        groups = [child for child in node.children if isinstance(child, nodes.tgroup)]
        return [block for group in groups for block in self._table_group(group, caption)]

    def _table_group(self, node: nodes.tgroup, caption: str) -> list[Block]:
        head = [
            row for part in node.children if isinstance(part, nodes.thead) for row in part.children
        ]
        body = [
            row for part in node.children if isinstance(part, nodes.tbody) for row in part.children
        ]
        columns = int(node.get("cols", 0)) or 1
        header = joined_header(self._grid(head, columns))
        rows = self._grid(body, columns)
        if all(is_simple(cell) for row in [header, *rows] for cell in row):
            return [Table([[cell_text(cell) for cell in row] for row in [header, *rows]], caption)]
        names = [cell_text(cell) for cell in header]
        return [*([Paragraph(caption)] if caption else []), *as_sections(names, rows)]

    def _grid(self, rows: Sequence[nodes.Node], columns: int) -> list[list[list[Block]]]:
        """Return the blocks of each cell; a cell over several rows is repeated in each."""
        grid: list[list[list[Block]]] = []
        spans: dict[int, tuple[int, list[Block]]] = {}
        for row in rows:
            cells: list[list[Block]] = []
            entries = iter(row.children)
            while len(cells) < columns:
                place = len(cells)
                left, spanned = spans.get(place, (0, []))
                if left:
                    spans[place] = (left - 1, spanned)
                    cells.append(spanned)
                    continue
                entry = next(entries, None)
                if entry is None:
                    cells.append([])
                    continue
                blocks = self._contained(entry.children)
                spans[place] = (_number(entry, "morerows"), blocks)
                cells.append(blocks)
                cells.extend([] for _ in range(_number(entry, "morecols")))
            grid.append(cells)
        return grid

    # ---- inline -------------------------------------------------------------------------------

    def _one_line(self, node: nodes.Node) -> str:
        return " ".join(self.inline(node.children).split())

    def inline(self, children: Iterable[nodes.Node]) -> str:
        """Return inline nodes as canonical inline Markdown."""
        text = "".join(map(self._span, children))
        return re.sub(r"(?<=\s) +(?=\(note )", "", text)

    def _span(self, node: nodes.Node) -> str:
        if isinstance(node, nodes.Text):
            return str(node.astext())
        if isinstance(node, (nodes.system_message, nodes.target)) and not isinstance(
            node, nodes.reference
        ):
            return "" if isinstance(node, nodes.system_message) else self.inline(node.children)
        if isinstance(node, nodes.strong) or any("bold" in name for name in _classes(node)):
            return emphasised(self.inline(node.children), "**")
        if isinstance(node, (nodes.emphasis, nodes.title_reference)):
            return emphasised(self.inline(node.children), "*")
        if isinstance(node, (nodes.literal, nodes.math)):
            return (
                code_text(node.astext())
                if isinstance(node, nodes.literal)
                else f"${node.astext()}$"
            )
        if isinstance(node, nodes.superscript):
            return f"^{node.astext()}"
        if isinstance(node, nodes.reference):
            return self._link_text(node)
        if isinstance(node, (nodes.footnote_reference, nodes.citation_reference)):
            return self._footnote_text(node)
        if isinstance(node, nodes.image):
            return figure_text(str(node.get("alt", "")), str(node.get("uri", "")))
        if isinstance(node, nodes.problematic):
            return _readable(node.astext())
        if isinstance(node, nodes.raw):
            return (
                "\n"
                if re.search(r"<br\b", node.astext())
                else re.sub(r"<[^>]*>", "", node.astext())
            )
        return self.inline(node.children)

    def _link_text(self, node: nodes.reference) -> str:
        text = self.inline(node.children)
        target = str(node.get("refuri", "")) or (f"#{node['refid']}" if node.get("refid") else "")
        shown = text.strip()
        is_figure = re.fullmatch(r"\[Figure: [^\]]*\]", shown) is not None
        if not target or is_figure or shown in ("", target, target.removeprefix("mailto:")):
            return text
        address = f"<{target}>" if re.search(r"[\s()]", target) else target
        return f"[{shown}]({address})"

    def _footnote_text(self, node: nodes.Element) -> str:
        key = str(node.get("refid", ""))
        label, text = self.notes.get(key, (node.astext(), ""))
        if key in self.noted or not text:
            return f" (note {label})"
        self.noted.add(key)
        return f" (note {label}: {text})"


def _notes(document: nodes.document) -> dict[str, tuple[str, str]]:
    """Return label and text of footnotes and citations by id."""
    found: dict[str, tuple[str, str]] = {}
    for kind in (nodes.footnote, nodes.citation):
        for note in document.findall(kind):
            label = next((c.astext() for c in note.children if isinstance(c, nodes.label)), "")
            parts = [c.astext() for c in note.children if not isinstance(c, nodes.label)]
            for name in _strings(note, "ids"):
                found[name] = (label, " ".join(" ".join(parts).split()))
    return found


def unreferenced_notes(
    document: nodes.document, used: set[str], notes: Mapping[str, Any]
) -> list[Block]:
    """Return footnotes that no text refers to as paragraphs, so that none is lost."""
    blocks: list[Block] = []
    for kind in (nodes.footnote, nodes.citation):
        for note in document.findall(kind):
            ids = _strings(note, "ids")
            if ids and not used & set(ids):
                label, text = notes[ids[0]]
                blocks.append(Paragraph(f"Note {label}: {text}"))
    return blocks


def _lines_of(node: nodes.Element, walker: Walker) -> list[str]:
    lines: list[str] = []
    for child in node.children:
        if isinstance(child, nodes.line_block):
            lines.extend(_lines_of(child, walker))
        elif isinstance(child, nodes.Element):
            lines.append(" ".join(walker.inline(child.children).split()))
    return lines


def _strings(node: nodes.Node, name: str) -> list[str]:
    values: Any = node.get(name, ()) if isinstance(node, nodes.Element) else ()
    return [str(value) for value in values]


def _number(node: nodes.Node, name: str) -> int:
    return int(node.get(name, 0)) if isinstance(node, nodes.Element) else 0


def _classes(node: nodes.Node) -> list[str]:
    return _strings(node, "classes") if isinstance(node, nodes.inline) else []


def _readable(text: str) -> str:
    """Return markup that docutils could not resolve as plain words.

    >>> _readable("|br|"), _readable("`the guide`_"), _readable(":foo:`bar <x>`")
    ('', 'the guide', 'bar')
    """
    if text in ("|br|", "|nbsp|", "|newline|"):
        return ""
    match = re.fullmatch(
        r":[\w:.+-]+:`(.*?)(?:\s*<[^>]*>)?`|\|(.+)\|_{0,2}|`(.+?)(?:\s*<[^>]*>)?`_{0,2}",
        text,
        re.DOTALL,
    )
    if match:
        return next((group for group in match.groups() if group), "")
    return re.sub(r"(?<=\w)_{1,2}$", "", text)


def _title_line(text: str) -> str:
    lines = [line.strip() for line in text.split("\n") if re.search(r"\w", line)]
    return lines[0] if lines else text.strip()
