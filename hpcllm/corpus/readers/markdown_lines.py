"""Block syntax that Markdown dialects add to CommonMark, resolved line by line before parsing.

Role: admonitions (``!!!``, ``???``, ``:::``, ``> [!NOTE]``), content tabs (``===``), directive
fences, snippet and mdBook includes, HTML tables and definition texts of abbreviations become
plain Markdown. Code fences pass through untouched. A tab becomes a mark that
:mod:`hpcllm.corpus.readers.markdown_blocks` turns into a heading or a label.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from hpcllm.corpus.readers.anchors import STYLES
from hpcllm.corpus.readers.markdown_includes import Includes
from hpcllm.corpus.readers.markdown_spans import (
    DELIMITER_ROW,
    FENCE,
    LIST_FENCE,
    at_item_column,
    dedent,
    escape_code_pipes,
    fence_end,
    glossary_lines,
    html_end,
    indented_body,
    language,
    widened_table,
)
from hpcllm.corpus.readers.tabs import TAB_MARK, TABS_END_MARK, TABS_START_MARK

_ADMONITION = re.compile(
    r"""^(?P<indent>[ \t]*)(?:!!!!?|\?\?\?\+?)[ \t]+(?P<type>[\w-]+)(?P<rest>(?:[ \t]+[\w-]+)*)"""
    r"""[ \t]*(?:(?P<quote>["'])(?P<title>.*)(?P=quote))?[ \t]*$"""
)
_UNTYPED = re.compile(r"""^(?P<indent>[ \t]*)(?:!!!!?|\?\?\?\+?)[ \t]+(?P<title>\S.*?)[ \t]*$""")
_TAB = re.compile(
    r"""^(?P<indent>[ \t]*)===[!+]*[ \t]+(?P<quote>["'])(?P<title>.*?)(?P=quote)?[ \t]*$"""
)
_COLONS = re.compile(
    r"^(?P<indent>[ \t]*)(?P<fence>:{3,})[ \t]*\{?(?P<type>[\w.:-]+)\}?[ \t]*"
    r"(?:\[(?P<box>.*)\]|(?P<title>\S.*?))?(?:\s*\{.*\})?[ \t]*$"
)
_COLONS_END = re.compile(r"^[ \t]*:{3,}[ \t]*$")
_GITHUB = re.compile(r"^(?P<mark>[ \t]*(?:> ?)+)\[!(?P<type>[\w-]+)\][+-]?[ \t]*(?P<title>.*)$")
_SNIPPET = re.compile(
    r"""^(?P<indent>[ \t]*);?-+8<-+[ \t]+["']?(?P<target>[^"'\n]+?)["']?[ \t]*$"""
)
_SNIPPET_BLOCK = re.compile(r"^(?P<indent>[ \t]*)-+8<-+[ \t]*$")
_ABBREVIATION = re.compile(r"^\*\[(?P<name>[^\]\n]+)\]:[ \t]*(?P<text>.*)$")
_HTML_START = re.compile(
    r"^(?P<indent>[ \t]*)<(?P<tag>table|dl|pre|ul|ol|figure|style|script)\b", re.IGNORECASE
)
_ANCHOR_ONLY = re.compile(r"""^\[\]\(\)\{[ ]*#(?P<id>[\w:.-]+)[^}]*\}[ \t]*$""")
_LABEL_ONLY = re.compile(r"^\((?P<label>[\w][^()\n]*)\)=[ \t]*$")
_DROPPED = re.compile(
    r"^[ \t]*(?:\[TOC\]|\[\[_?TOC_?\]\]|\\(?:newpage|pagebreak)|\[//\]:[ ]*#.*"
    r"|\{\{[<%][ ]*/?\w.*[%>]\}\})[ \t]*$",
    re.IGNORECASE,
)
_SHORTCODE_TITLE = re.compile(
    r"""^[ \t]*\{\{[<%][ ]*[\w/-]+.*?(?:title|header|name)=["']([^"']+)["'].*[%>]\}\}[ \t]*$"""
)
_TAB_ITEM = re.compile(
    r"""^[ \t]*<(?:TabItem|Tab)\b[^>]*?\b(?:label|title|value)=["']([^"']+)["'][^>]*>[ \t]*$"""
)
_TABS_END_TAG = re.compile(r"^[ \t]*</Tabs>[ \t]*$")
_TABS_TAG = re.compile(r"^[ \t]*(?:<Tabs\b[^>]*>|</TabItem>|</Tab>)[ \t]*$")
_TYPE_WORDS = frozenset(["default", "inline", "end", "collapse", "annotate"])
_CODE_DIRECTIVES = frozenset({"code", "code-block", "code-cell", "sourcecode", "prompt"})

MAX_NESTING = 40
"""Admonitions and tabs within one another; deeper ones are left as they are."""

HtmlToMarkdown = Callable[[str], str]


@dataclass(slots=True)
class LineReader:
    """Rewrites the lines of one page.

    Attributes:
        includes: files that the page may include.
        html_to_markdown: converts an HTML fragment.
        unclosed: HTML tags without an end in the lines at hand, by level of containers.
    """

    includes: Includes
    html_to_markdown: HtmlToMarkdown
    unclosed: list[set[str]] = field(default_factory=list)

    def rewrite(self, text: str) -> str:
        """Return ``text`` with all block extensions resolved."""
        return "\n".join(self._rewritten(text.split("\n")))

    def _rewritten(self, lines: list[str]) -> list[str]:
        if len(self.unclosed) > MAX_NESTING:
            return lines
        self.unclosed.append(set())
        out = self._walk(lines)
        self.unclosed.pop()
        return out

    def _walk(self, lines: list[str]) -> list[str]:
        out: list[str] = []
        position = 0
        while position < len(lines):
            line = lines[position]
            end = fence_end(lines, position)
            if end:
                out.extend(self._fenced(at_item_column(lines[position:end], out)))
                position = end
                continue
            if "|" in line and DELIMITER_ROW.match(line):
                position = self._table(lines, position, out)
                continue
            if not _may_be_special(line):
                out.append(line)
                position += 1
                continue
            position = self._special(lines, position, out)
        return out

    def _table(self, lines: list[str], position: int, out: list[str]) -> int:
        """Keep pipes in the code of table cells from being read as borders of cells."""
        rows = [escape_code_pipes(out.pop())] if out else []
        rows.append(lines[position])
        position += 1
        while position < len(lines) and _is_row(lines[position]):
            rows.append(escape_code_pipes(lines[position]))
            position += 1
        out.extend(widened_table(rows) if len(rows) > 2 else rows)
        return position

    def _special(self, lines: list[str], position: int, out: list[str]) -> int:
        """Handle one line outside code; return the position after what it took."""
        line = lines[position]
        for pattern, handler in _HANDLERS:
            match = pattern.match(line)
            if match:
                end = handler(self, match, lines, position, out)
                if end:
                    return end
        out.append(self.includes.mdbook(line) if "{{#" in line else line)
        return position + 1

    # ---- code ---------------------------------------------------------------------------------

    def _fenced(self, lines: list[str]) -> list[str]:
        match = FENCE.match(lines[0]) or LIST_FENCE.match(lines[0])
        info = match.group("info").strip() if match else ""
        directive = re.match(r"\{([\w:.-]+)\}[ \t]*(.*)$", info)
        if match and directive:
            return self._directive(match, directive, lines)
        title = re.search(r"""\btitle=(["'])(.*?)\1""", info)
        inside = lines[1:]
        if any("{{#" in line or "8<" in line for line in inside):
            inside = [new for line in inside for new in self._in_code(line)]
        head = lines[0]
        if match and info:
            head = head[: match.end("fence")] + language(info)
        label = [match.group("indent") + f"`{title.group(2)}`:", ""] if match and title else []
        return [*label, head, *inside]

    def _in_code(self, line: str) -> list[str]:
        snippet = _SNIPPET.match(line)
        if snippet and not line.lstrip().startswith(";"):
            text = self.includes.snippet(snippet.group("target"))
            if text is not None:
                return [snippet.group("indent") + part for part in text.split("\n")]
            return [line]
        return self.includes.mdbook(line).split("\n")

    def _directive(
        self, fence: re.Match[str], directive: re.Match[str], lines: list[str]
    ) -> list[str]:
        """Rewrite a MyST directive fence: code stays code, text is unwrapped."""
        name, title = directive.group(1).lower(), directive.group(2)
        indent = fence.group("indent") if not fence.group("indent").strip() else ""
        body = lines[1:-1] if len(lines) > 1 else []
        while body and re.match(r"^\s*:[\w-]+:", body[0]):
            body = body[1:]
        if name in _CODE_DIRECTIVES or not re.fullmatch(r"[a-z:-]+", name):
            return [fence.group("indent") + fence.group("fence") + title, *body, lines[-1]]
        if name == "glossary":
            body = glossary_lines(body)
        if name in ("toctree", "include", "literalinclude", "image", "contents"):
            return []
        inside = self._rewritten([dedent(line, len(indent)) for line in body])
        if name in ("tab-item", "tab"):
            return ["", TAB_MARK + title, "", *inside, ""]
        label = (
            []
            if name.endswith(("grid", "tab-set", "figure", "table", "math", "glossary"))
            else [_label(name, title), ""]
        )
        tail = [TABS_END_MARK, ""] if name == "tab-set" else []
        return ["", *(indent + line if line else "" for line in [*label, *inside, "", *tail]), ""]

    # ---- admonitions and tabs -----------------------------------------------------------------

    def _admonition(
        self, match: re.Match[str], lines: list[str], position: int, out: list[str]
    ) -> int:
        groups = match.groupdict()
        indent = match.group("indent")
        title = groups.get("title")
        kind = groups.get("type") or ""
        body, end = indented_body(lines, position + 1, indent)
        label = _label(kind, title) if kind else f"**{title}**"
        out.extend(["", *([indent + label, ""] if title != "" else [])])
        out.extend(indent + line if line else "" for line in self._rewritten(body))
        out.append("")
        return end

    def _tab(self, match: re.Match[str], lines: list[str], position: int, out: list[str]) -> int:
        """Rewrite a whole group of tabs: those that follow one another at one indentation."""
        indent = match.group("indent")
        end = position
        out.extend(["", indent + TABS_START_MARK, ""])
        while match:
            body, end = indented_body(lines, end + 1, indent)
            out.extend(["", f"{indent}{TAB_MARK}{match.group('title')}", ""])
            out.extend(indent + line if line else "" for line in self._rewritten(body))
            if end >= len(lines):
                break
            following = _TAB.match(lines[end])
            if following is None or following.group("indent") != indent:
                break
            match = following
        out.extend(["", indent + TABS_END_MARK, ""])
        return end

    def _colons(self, match: re.Match[str], lines: list[str], position: int, out: list[str]) -> int:
        """Rewrite ``:::type title`` … ``:::``, nested by longer fences or by order."""
        end = _colons_end(lines, position, len(match.group("fence")))
        if not end:
            return 0
        kind = match.group("type").lower()
        title = match.group("box") or match.group("title") or ""
        body = [
            line
            for line in lines[position + 1 : end - 1]
            if not re.match(r"^\s*:[\w-]+:(\s|$)", line)
        ]
        inside = self._rewritten(body)
        indent = match.group("indent")
        if kind in ("tab-item", "tab"):
            out.extend(["", f"{indent}{TAB_MARK}{title}", ""])
        elif kind not in ("tab-set", "tabs", "grid", "grid-item", "div", "columns", "column"):
            out.extend(["", indent + _label(kind, title), ""])
        out.extend(inside)
        out.extend(["", indent + TABS_END_MARK, ""] if kind in ("tab-set", "tabs") else [""])
        return end

    def _github(self, match: re.Match[str], lines: list[str], position: int, out: list[str]) -> int:
        mark = match.group("mark")
        out.extend([mark + _label(match.group("type"), match.group("title")), mark.rstrip()])
        return position + 1

    def _tab_item(
        self, match: re.Match[str], lines: list[str], position: int, out: list[str]
    ) -> int:
        out.extend(["", TAB_MARK + match.group(1), ""])
        return position + 1

    def _tabs_end(
        self, match: re.Match[str], lines: list[str], position: int, out: list[str]
    ) -> int:
        out.extend(["", TABS_END_MARK, ""])
        return position + 1

    # ---- includes -----------------------------------------------------------------------------

    def _snippet(
        self, match: re.Match[str], lines: list[str], position: int, out: list[str]
    ) -> int:
        indent = match.group("indent")
        if lines[position].lstrip().startswith(";"):
            out.append(lines[position].replace(";", "", 1))  # an escaped example of the syntax
            return position + 1
        self._insert(match.group("target"), indent, position, out)
        return position + 1

    def _snippet_block(
        self, match: re.Match[str], lines: list[str], position: int, out: list[str]
    ) -> int:
        """Insert every file named between two bare ``--8<--`` lines."""
        for end in range(position + 1, min(len(lines), position + 50)):
            if _SNIPPET_BLOCK.match(lines[end]):
                for name in lines[position + 1 : end]:
                    if name.strip() and not name.lstrip().startswith(";"):
                        self._insert(name.strip(), match.group("indent"), position, out)
                return end + 1
        return 0

    def _insert(self, target: str, indent: str, position: int, out: list[str]) -> None:
        is_loop = target in self.includes.trail
        text = None if is_loop else self.includes.snippet(target)
        if text is None:
            reason = "includes itself: it was left out" if is_loop else "is missing"
            self.includes.warnings.append(f"line {position + 1}: snippet {target} {reason}")
            return
        nested = LineReader(self.includes.deeper(target), self.html_to_markdown)
        out.extend(indent + line if line else "" for line in nested._rewritten(text.split("\n")))

    # ---- the rest -----------------------------------------------------------------------------

    def _html(self, match: re.Match[str], lines: list[str], position: int, out: list[str]) -> int:
        """Convert an HTML element that may hold blank lines, which would end a HTML block."""
        tag = match.group("tag").lower()
        end = 0 if tag in self.unclosed[-1] else html_end(lines, position, tag)
        if not end:
            self.unclosed[-1].add(tag)
            return 0
        indent = match.group("indent")
        if tag in ("style", "script"):
            return end
        fragment = "\n".join(dedent(line, len(indent)) for line in lines[position:end])
        converted = self.html_to_markdown(fragment)
        out.append("")
        out.extend(indent + line if line else "" for line in converted.split("\n"))
        out.append("")
        return end

    def _abbreviations(
        self, match: re.Match[str], lines: list[str], position: int, out: list[str]
    ) -> int:
        text = match.group("text")
        end = position + 1
        while end < len(lines) and lines[end].strip() and not _ABBREVIATION.match(lines[end]):
            text += " " + lines[end].strip()
            end += 1
        out.extend(["", match.group("name"), f": {text}", ""])
        return end

    def _anchor(self, match: re.Match[str], lines: list[str], position: int, out: list[str]) -> int:
        """Move ``[](){#id}`` or the first of several ``(label)=`` to the heading after them."""
        end = position + 1
        while end < len(lines) and (not lines[end].strip() or _LABEL_ONLY.match(lines[end])):
            end += 1
        if end < len(lines) and re.match(r"^#{1,6}\s", lines[end]) and "{#" not in lines[end]:
            groups = match.groupdict()
            anchor = groups["id"] if "id" in groups else STYLES["sphinx"][0](groups["label"])
            out.append(f"{lines[end].rstrip()} {{#{anchor}}}" if anchor else lines[end])
            return end + 1
        return position + 1

    def _drop(self, match: re.Match[str], lines: list[str], position: int, out: list[str]) -> int:
        title = _SHORTCODE_TITLE.match(lines[position])
        out.extend(["", f"**{title.group(1)}**", ""] if title else [""])
        return position + 1


Handler = Callable[[LineReader, "re.Match[str]", "list[str]", int, "list[str]"], int]
_HANDLERS: tuple[tuple[re.Pattern[str], Handler], ...] = (
    (_ADMONITION, LineReader._admonition),
    (_UNTYPED, LineReader._admonition),
    (_TAB, LineReader._tab),
    (_GITHUB, LineReader._github),
    (_SNIPPET, LineReader._snippet),
    (_SNIPPET_BLOCK, LineReader._snippet_block),
    (_HTML_START, LineReader._html),
    (_TAB_ITEM, LineReader._tab_item),
    (_TABS_END_TAG, LineReader._tabs_end),
    (_TABS_TAG, LineReader._drop),
    (_COLONS, LineReader._colons),
    (_ABBREVIATION, LineReader._abbreviations),
    (_ANCHOR_ONLY, LineReader._anchor),
    (_LABEL_ONLY, LineReader._anchor),
    (_DROPPED, LineReader._drop),
)


def _is_row(line: str) -> bool:
    return "|" in line and not line.lstrip().startswith("<!--")


def _may_be_special(line: str) -> bool:
    """Say cheaply whether any handler could match: most lines are ordinary text."""
    start = line.lstrip()[:1]
    return start in "!?=>-;<:*([\\{" if start and start != "{" else "{{" in line


def _label(kind: str, title: str | None) -> str:
    """Return the bold line that an admonition begins with."""
    name = kind.replace("-", " ").replace("_", " ").strip().capitalize()
    if kind.lower() in _TYPE_WORDS or not name:
        return f"**{title}**" if title else ""
    if not title:
        return f"**{name}:**"
    plain = re.sub(r"\W+", " ", title).strip().lower()
    return f"**{title}**" if plain.startswith(name.lower()) else f"**{name}: {title}**"


def _colons_end(lines: list[str], position: int, length: int) -> int:
    depth = 0
    for end in range(position + 1, len(lines)):
        if _COLONS_END.match(lines[end]):
            found = len(lines[end].strip())
            if found > length or (depth and found < length):
                continue
            if depth == 0 or found != length:
                return end + 1
            depth -= 1
        else:
            opened = _COLONS.match(lines[end])
            depth += bool(opened and len(opened.group("fence")) == length)
    return 0
