"""Directives of reStructuredText as Sphinx sites use them, made tolerant.

Role: docutils parses; this module gives it a directive for every name, so that nothing a site's
extensions define is lost: an unknown directive keeps its content. Includes are resolved inside
the source's root only.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from docutils.statemachine import StringList

from hpcllm.corpus.readers.base import decode_text, file_inside, word_set
from hpcllm.corpus.readers.rst_roles import label_titles
from hpcllm.corpus.readers.rst_tables import PaddedListTable
from hpcllm.errors import IngestError

if TYPE_CHECKING:
    from pathlib import Path

MAX_INCLUDES = 300
"""Files that one page may include; more are taken for a loop."""

MAX_INCLUDE_BYTES = 2_000_000

KIND = "hpcllm_kind"
"""Attribute of a container that says what it stands for; see :mod:`.rst_blocks`."""

SUBSTITUTES = "hpcllm_substitutes"
"""Attribute of code whose ``|name|`` the site's build replaces, as it does in text."""

PROLOG, PAGE_START, PAGE_END = "hpcllm-prolog", "hpcllm-page-start", "hpcllm-page-end"
"""Directives of our own: insert the prolog; mark where the page's own text starts and ends."""

LINES_BEFORE = 2
"""Lines that are put before a page's text to insert its prolog."""

ADMONITION_NAMES = {
    "todo": "To do",
    "versionadded": "Added in version",
    "deprecated": "Deprecated since version",
    "versionchanged": "Changed in version",
    "versionremoved": "Removed in version",
    "seealso": "See also",
}
_CODE = word_set(
    """code code-block command-output console highlight-block ipython parsed-literal
    program-output prompt sourcecode terminal"""
)
_TAB_SETS = frozenset({"content-tabs", "tab-set", "tabs", "tabularset"})
_TABS = frozenset({"code-tab", "content-tab", "group-tab", "tab", "tab-container", "tab-item"})
_FOLDED = frozenset({"collapse", "details", "dropdown", "faq", "question", "toggle"})
_NOTHING = word_set(
    """class contents cssclass currentmodule default-domain default-role footer header
    highlight include-log index module moduleauthor program raw-html rst-class
    sectionauthor sectnum tabularcolumns title youtube"""
)
_OBJECTS = word_set(
    """attribute class cmdoption confval data describe envvar exception function macro method
    object option setting type variable"""
)
_BUILT_IN = word_set(
    """admonition attention caution compound container csv-table danger date epigraph error
    figure highlights hint image important line-block list-table math meta note pull-quote
    raw replace role rubric table tip topic unicode warning"""
)
"""Directives whose docutils class does what is wanted."""


@dataclass(slots=True)
class PageContext:
    """What directives of the page being parsed need, and what they find out.

    Attributes:
        root: the source's root.
        path: the page's path relative to it.
        prolog: text whose definitions hold for the page.
        prepare: what is done to a file's text before it is parsed (variables).
        html_to_markdown: converts an HTML fragment.
        warnings: what could not be done.
        includes: files whose text went into the page.
        includers: for each included file, the files that led to it.
    """

    root: Path
    path: str
    prolog: str
    prepare: Callable[[str], str]
    html_to_markdown: Callable[[str], str]
    warnings: list[str] = field(default_factory=list)
    includes: list[str] = field(default_factory=list)
    includers: dict[str, set[str]] = field(default_factory=dict)

    def find(self, target: str, folder: str) -> tuple[str, bytes] | None:
        """Return path and content of a file named in ``folder``, or ``/name`` in the root."""
        joined = target if target.startswith("/") else posixpath.join(folder, target)
        path = posixpath.normpath(joined.lstrip("/"))
        found = None if path.startswith("..") else file_inside(self.root, path)
        if found is None or found.stat().st_size > MAX_INCLUDE_BYTES:
            return None
        self.includes.append(path)
        return path, found.read_bytes()

    def text(self, target: str, folder: str) -> tuple[str, str] | None:
        """Return path and decoded, prepared text of a file, or None."""
        found = self.find(target, folder)
        if found is None or len(self.includes) > MAX_INCLUDES:
            return None
        try:
            return found[0], self.prepare(decode_text(found[1], found[0]))
        except IngestError:
            return None


class _AnyOption(dict[str, Any]):
    """An option table that knows every option; true although empty, else docutils skips options."""

    def __bool__(self) -> bool:
        return True

    def __missing__(self, key: str) -> Callable[[Any], Any]:
        return lambda value: value


class Tolerant(Directive):
    """A directive that accepts everything; what it makes depends on its name."""

    required_arguments = 0
    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec = _AnyOption()
    context: ClassVar[PageContext]

    @property
    def argument(self) -> str:
        """The text after the two colons."""
        return self.arguments[0] if self.arguments else ""

    @property
    def folder(self) -> str:
        """Folder of the file that the directive stands in, relative to the root."""
        source, _ = self.state_machine.get_source_and_line(self.lineno)
        return posixpath.dirname(source or self.context.path)

    def warn(self, reason: str) -> None:
        """Note what could not be done, with its line where it stands in the page itself."""
        source, line = self.state_machine.get_source_and_line(self.lineno)
        is_own = source == self.context.path
        place = (
            f"line {(line or LINES_BEFORE + 1) - LINES_BEFORE}"
            if is_own
            else f"{source}: line {line}"
        )
        self.context.warnings.append(f"{place}: {reason}")

    def run(self) -> list[nodes.Node]:
        """Return the nodes that the directive stands for."""
        domain, _, name = self.name.lower().rpartition(":")
        if domain and name in _OBJECTS:
            return self._object()
        for names, method in _METHODS:
            if name in names:
                return method(self)
        return self._unknown()

    def parsed(self, kind: str = "", **attributes: Any) -> nodes.container:
        """Return the content parsed, headings allowed."""
        node = nodes.container(**{KIND: kind, **attributes})
        memo = self.state.memo
        kept = memo.title_styles, memo.section_level
        memo.title_styles, memo.section_level = [], 0
        try:
            self.state.nested_parse(self.content, self.content_offset, node, match_titles=True)
        finally:
            memo.title_styles, memo.section_level = kept
        return node

    def inline(self, text: str) -> nodes.paragraph:
        """Return ``text`` parsed as inline markup, as a paragraph."""
        children, messages = self.state.inline_text(" ".join(text.split()), self.lineno)
        return nodes.paragraph("", "", *children, *messages)

    def _prolog(self) -> list[nodes.Node]:
        lines = [*self.context.prolog.split("\n"), "", f".. {PAGE_START}::", ""]
        self.state_machine.insert_input([line.expandtabs(8) for line in lines], "prolog")
        return []

    def _edge(self) -> list[nodes.Node]:
        return [nodes.container(**{KIND: self.name})]

    def _raw(self) -> list[nodes.Node]:
        """Take the file of a raw directive from inside the root."""
        name = self.options.pop("file", None)
        self.options.pop("url", None)
        if name is not None:
            found = self.context.text(str(name), self.folder)
            if found is None:
                self.warn(f"raw file {name} is missing")
                return []
            self.content = StringList(found[1].split("\n"), found[0])
        return self._by_docutils() if self.content else []

    # ---- what each kind makes -----------------------------------------------------------------

    def _nothing(self) -> list[nodes.Node]:
        return []

    def _code(self) -> list[nodes.Node]:
        """Code; lines right below the mark without a blank line are code too."""
        first, _, rest = self.argument.partition("\n")
        language = first.split()[0] if first.split() else ""
        lines = [*rest.split("\n"), *self.content] if rest else list(self.content)
        if self.name == "parsed-literal":
            language, lines = "", [*([self.argument] if self.argument else []), *self.content]
        if "{" in language:  # the name of a build-time variable
            language = ""
        node = nodes.literal_block("\n".join(lines), "\n".join(lines), language=language)
        node[SUBSTITUTES] = "substitutions" in self.options
        return [*self._caption(), node]

    def _caption(self) -> list[nodes.Node]:
        caption = self.options.get("caption")
        return [self.inline(f"{caption}:")] if caption else []

    def _tab_set(self) -> list[nodes.Node]:
        return [self.parsed("tabs")]

    def _tab(self) -> list[nodes.Node]:
        if self.name == "code-tab":
            language, _, label = self.argument.partition(" ")
            code = "\n".join(self.content)
            node = nodes.container(**{KIND: "tab", "label": label or language})
            node += nodes.literal_block(code, code, language=language)
            return [node]
        return [self.parsed("tab", label=self.inline(self.argument).astext())]

    def _folded(self) -> list[nodes.Node]:
        if not self.argument:
            return [self.parsed()]
        return [self.parsed("folded", label=self.inline(self.argument).astext())]

    def _glossary(self) -> list[nodes.Node]:
        """Give terms the anchors that Sphinx gives them."""
        node = self.parsed()
        for term in node.findall(nodes.term):
            term["ids"].append("term-" + re.sub(r"[^\w.]+", "-", term.astext()).strip("-"))
        return [node]

    def _sidebar(self) -> list[nodes.Node]:
        return [self.parsed("labelled", label=self.argument)]

    def _admonition(self) -> list[nodes.Node]:
        label = ADMONITION_NAMES.get(self.name.rpartition(":")[2], self.name.capitalize())
        node = self.parsed("labelled", label=label)
        if self.argument:
            node.insert(0, self.inline(self.argument))
        return [node]

    def _object(self) -> list[nodes.Node]:
        node = self.parsed("object")
        node["terms"] = [line.strip() for line in self.argument.split("\n") if line.strip()]
        return [node]

    def _toctree(self) -> list[nodes.Node]:
        """List the titles of the pages below, which the built page shows as links."""
        if "hidden" in self.options:
            return []
        titles = list(filter(None, map(self._entry_title, self.content)))
        caption = str(self.options.get("caption") or "")
        node = nodes.container()
        if caption:
            node += nodes.paragraph(caption, caption)
        if titles:
            items = [nodes.list_item("", nodes.paragraph(title, title)) for title in titles]
            node += nodes.bullet_list("", *items)
        return [node] if node.children else []

    def _entry_title(self, line: str) -> str:
        explicit = re.match(r"\s*(.+?)\s*<[^>]+>\s*$", line)
        if explicit:
            return explicit.group(1)
        path = posixpath.normpath(
            posixpath.join("/", self.folder, line.strip().removesuffix(".rst"))
        )
        return label_titles(self.context.root).get(path, "") if line.strip() else ""

    def _include(self) -> list[nodes.Node]:
        found = self.context.text(self.argument.strip(), self.folder)
        if found is None:
            self.warn(f"include target {self.argument.strip()} is missing")
            return []
        path, text = found
        selected = select_lines(text, self.options)
        if "literal" in self.options or "code" in self.options:
            language = str(self.options.get("code") or "")
            return [nodes.literal_block(selected, selected, language=language)]
        if self._is_loop(path):
            self.warn(f"{path} includes itself: the include was left out")
            return []
        if path.lower().endswith((".md", ".markdown")) or "parser" in self.options:
            return [nodes.container(**{KIND: "markdown", "text": selected})]
        lines = [line.expandtabs(8) for line in selected.split("\n")]
        self.state_machine.insert_input(lines, path)
        return []

    def _is_loop(self, path: str) -> bool:
        """Say whether an included file is the one that it is included in, or one above that."""
        source, _ = self.state_machine.get_source_and_line(self.lineno)
        page = self.context.path
        above = {source or page, page, *self.context.includers.get(source or page, ())}
        self.context.includers.setdefault(path, set()).update(above)
        return path in above

    def _markdown_include(self) -> list[nodes.Node]:
        found = self.context.text(self.argument.strip(), self.folder)
        if found is None:
            self.warn(f"include target {self.argument.strip()} is missing")
            return []
        return [nodes.container(**{KIND: "markdown", "text": select_lines(found[1], self.options)})]

    def _literal_include(self) -> list[nodes.Node]:
        name = self.argument.strip()
        found = self.context.text(name, self.folder)
        label = str(self.options.get("caption") or posixpath.basename(name))
        if found is None:
            self.warn(f"literalinclude target {name} is missing")
            note = f"(The file {label} is shown here on the site and was not available to read.)"
            return [nodes.paragraph(note, note)]
        code = select_lines(found[1], self.options)
        node = nodes.literal_block(code, code, language=str(self.options.get("language") or ""))
        return [nodes.paragraph(label, f"{label}:"), node]

    def _csv_table(self) -> list[nodes.Node]:
        """Read a csv-table's file here, inside the root, and let docutils parse its text."""
        name = self.options.pop("file", None)
        self.options.pop("url", None)
        if name is not None:
            found = self.context.text(str(name), self.folder)
            if found is None:
                self.warn(f"csv-table file {name} is missing")
                return []
            self.content = StringList(found[1].split("\n"), found[0])
        return self._by_docutils()

    def _by_docutils(self) -> list[nodes.Node]:
        """Run docutils' own directive, whose options are read leniently."""
        original, _ = _docutils_directive(self.name, self.state.memo.language, self.state.document)
        if original is None:
            return self._unknown()
        if self.name == "list-table":
            original = PaddedListTable
        options = _converted(self.options, original.option_spec or {})
        arguments = [self.argument] if self.argument else []
        content, offset = self.content, self.content_offset
        if arguments and not (original.required_arguments or original.optional_arguments):
            extra = StringList([*arguments[0].split("\n"), ""], self.folder)
            content, arguments, offset = extra + self.content, [], self.lineno - 1
        directive = original(
            self.name,
            arguments,
            options,
            content,
            self.lineno,
            offset,
            self.block_text,
            self.state,
            self.state_machine,
        )
        return list(directive.run())

    def _unknown(self) -> list[nodes.Node]:
        node = self.parsed()
        text = " ".join(self.argument.split())
        if re.search(r"[^\W\d]\s", text) or (
            text and self.content and not re.search(r"[/.]\w", text)
        ):
            node.insert(
                0, nodes.paragraph("", "", nodes.strong("", "", *self.inline(text).children))
            )
        return [node] if node.children else []


_METHODS: tuple[tuple[frozenset[str], Callable[[Tolerant], list[nodes.Node]]], ...] = (
    (_CODE, Tolerant._code),
    (frozenset({PROLOG}), Tolerant._prolog),
    (frozenset({PAGE_START, PAGE_END}), Tolerant._edge),
    (frozenset({"raw"}), Tolerant._raw),
    (frozenset({"include"}), Tolerant._include),
    (frozenset({"mdinclude", "include-md"}), Tolerant._markdown_include),
    (frozenset({"literalinclude"}), Tolerant._literal_include),
    (frozenset({"csv-table"}), Tolerant._csv_table),
    (frozenset({"toctree"}), Tolerant._toctree),
    (_TAB_SETS, Tolerant._tab_set),
    (_TABS, Tolerant._tab),
    (_FOLDED, Tolerant._folded),
    (frozenset({"glossary"}), Tolerant._glossary),
    (frozenset({"sidebar"}), Tolerant._sidebar),
    (frozenset(ADMONITION_NAMES), Tolerant._admonition),
    (_NOTHING, Tolerant._nothing),
    (_OBJECTS, Tolerant._object),
    (_BUILT_IN, Tolerant._by_docutils),
)

_docutils_directive = directives.directive


def directive_for(context: PageContext) -> Callable[..., Any]:
    """Return the function that docutils asks for directives while it parses one page."""
    bound = type("PageDirective", (Tolerant,), {"context": context})

    def find(name: str, language_module: Any, document: Any) -> tuple[Any, list[Any]]:
        return bound, []

    return find


def _converted(options: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that docutils knows, converted; those it would refuse are left out."""
    kept: dict[str, Any] = {}
    for key, value in options.items():
        converter = spec.get(key)
        if converter is None:
            continue
        try:
            kept[key] = converter(value)
        except (ValueError, TypeError):
            continue
    return kept


def select_lines(text: str, options: Mapping[str, Any]) -> str:
    """Return the part of an included file that the options of the directive choose.

    Args:
        text: the file.
        options: of ``include`` (start-line, end-line, start-after, end-before) and
            ``literalinclude`` (lines, start-at, end-at, dedent, pyobject is ignored).
    """
    lines = text.split("\n")
    first, last = _whole(options.get("start-line")), _whole(options.get("end-line"))
    if first is not None or last is not None:
        lines = lines[first:last]
    if options.get("lines"):
        lines = [lines[n] for n in _numbers(str(options["lines"]), len(lines))]
    chosen = "\n".join(lines)
    after, before = options.get("start-after"), options.get("end-before")
    if after and after in chosen:
        chosen = chosen[chosen.index(after) + len(after) :]
    if before and before in chosen:
        chosen = chosen[: chosen.index(before)]
    start, end = options.get("start-at"), options.get("end-at")
    if start and start in chosen:
        chosen = chosen[chosen.rfind("\n", 0, chosen.index(start)) + 1 :]
    if end and end in chosen:
        stop = chosen.find("\n", chosen.index(end))
        chosen = chosen if stop < 0 else chosen[:stop]
    return chosen.strip("\n")


def _whole(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _numbers(spec: str, count: int) -> list[int]:
    """Return positions for ``1,3-5,8-`` among ``count`` lines."""
    found: list[int] = []
    for part in spec.split(","):
        match = re.fullmatch(r"\s*(\d*)\s*(-?)\s*(\d*)\s*", part)
        if match and any(match.groups()):
            first = int(match.group(1) or 1)
            last = int(match.group(3) or count) if match.group(2) else first
            found.extend(n - 1 for n in range(first, min(last, count) + 1) if n >= 1)
    return found
