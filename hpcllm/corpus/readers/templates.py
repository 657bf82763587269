"""Jinja and Liquid templates in documentation, resolved as far as the values are known.

Role: :func:`render_template` turns a page's source into what its site's build would have made of
it, from plain data (:mod:`hpcllm.corpus.readers.site_options`). It is tolerant by design: an
unknown value stays readable, sample code that merely looks like a template stays as it is, and
a warning says what could not be resolved.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hpcllm.corpus.readers.base import as_text
from hpcllm.corpus.readers.template_expressions import MAX_LENGTH, UNRESOLVED, evaluate, is_true

Include = Callable[[str], "str | None"]
"""Gives the text of an include's target, or None where it is missing."""

MAX_DEPTH = 12
"""Includes within includes; deeper ones are taken for a loop."""

MAX_TURNS = 10_000
"""Turns of all loops of a page; loops within loops multiply to any number otherwise."""

MAX_BLOCKS = 60
"""Block tags within block tags; deeper ones are left as plain tags."""

_OPENING = re.compile(r"\{%|\{\{(?![#<%])|\{#(?=\s)")
_CLOSINGS = {
    "{%": re.compile(r"%\}"),
    "{{": re.compile(r"\}\}"),
    "{#": re.compile(r"(?<=\s)#\}"),
}
_END_OF_RAW = re.compile(r"\{%-?\s*endraw\s*-?%\}")
_GAP = re.compile(r"[ \t]*\n?")
LINE_SIDE = 300
"""Characters looked at on either side of a tag to tell whether it stands alone on its line."""
_CODE = re.compile(
    r"^[ \t>]*(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t>]*(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?<![`\\])(?P<ticks>`+)(?!`)(?:(?!\n\s*\n).)*?(?<!`)(?P=ticks)(?!`)",
    re.DOTALL | re.MULTILINE,
)
_CLOSERS = {
    "if": ("endif",),
    "unless": ("endunless",),
    "for": ("endfor",),
    "capture": ("endcapture",),
    "comment": ("endcomment",),
    "highlight": ("endhighlight",),
    "macro": ("endmacro",),
    "block": ("endblock",),
    "case": ("endcase",),
    "call": ("endcall",),
    "filter": ("endfilter",),
}
_BRANCHES = frozenset({"elif", "elsif", "else", "when"})


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of text, an output mark or a tag.

    Attributes:
        kind: ``text``, ``output`` or ``tag``.
        body: the text, or what stands between the marks.
        raw: the mark as written.
        line: its line, from 1.
        in_code: whether it stands in a fence or between backticks.
        is_alone: whether nothing else stands on its line.
    """

    kind: str
    body: str
    raw: str = ""
    line: int = 1
    in_code: bool = False
    is_alone: bool = False


@dataclass(slots=True)
class _Node:
    """A piece, with the branches of a block tag: ``(tag body, nodes)`` each."""

    piece: _Piece
    branches: list[tuple[str, list[_Node]]] = field(default_factory=list)


def has_template_tags(text: str) -> bool:
    """Say whether block tags stand outside code, so that a build must have resolved them."""
    if "{%" not in text:
        return False
    return any(piece.kind == "tag" and not piece.in_code for piece in _pieces(text))


def render_template(
    text: str,
    variables: Mapping[str, Any],
    include: Include,
    warnings: list[str],
    *,
    blank_none: bool = False,
    skip_code: bool = False,
    trail: tuple[str, ...] = (),
    turns: list[int] | None = None,
) -> str:
    """Resolve the templates in ``text``.

    Args:
        text: source of a page.
        variables: known values by name.
        include: gives the text of included files.
        warnings: what could not be resolved is appended here, each once.
        blank_none: whether a missing member of a known name is empty text, as in Liquid; else
            it counts as unknown, since a site's build can add members that its data lack.
        skip_code: whether marks in code are left as they are even where their value is known.
        trail: the includes that led here, with their parameters, outermost first.
        turns: how many more turns the loops of the whole page may take, in a list of one number
            that is counted down; by default :data:`MAX_TURNS`.

    Returns:
        The text with known values put in. Unknown values outside code become ``<name>``.
    """
    if "{%" not in text and "{{" not in text:
        return text
    nodes = _parse(_pieces(text))
    renderer = _Renderer(dict(variables), include, warnings, blank_none, trail, skip_code)
    renderer.turns = [MAX_TURNS] if turns is None else turns
    return renderer.render(nodes)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A mark as it stands in the text: where, and what is inside it (nothing: a comment)."""

    start: int
    end: int
    raw: str
    tag: str | None = None
    output: str | None = None


def _marks(text: str) -> Generator[_Mark, int, None]:
    """Yield marks in order; ``send`` a position to go on from there.

    A kind of mark that is not closed once is not closed later either, so that a text full of
    opening braces is gone through once.
    """
    position = 0
    unclosed: set[str] = set()
    while opening := _OPENING.search(text, position):
        kind, start = opening.group(), opening.start()
        is_comment = kind == "{#"
        first = start + (3 if is_comment else 2)
        closing = None if kind in unclosed else _CLOSINGS[kind].search(text, first)
        if closing is None:
            unclosed.add(kind)
            position = start + 1
            continue
        inside, end = text[start + 2 : closing.start()], closing.end()
        raw = text[start:end]
        if kind == "{%":
            mark = _Mark(start, end, raw, tag=_without_signs(inside, "-+"))
        else:
            output = None if is_comment else inside.removeprefix("-").removesuffix("-").strip()
            mark = _Mark(start, end, raw, output=output)
        position = (yield mark) or end


def _without_signs(inside: str, signs: str) -> str:
    inside = inside[1:] if inside[:1] in signs and inside else inside
    inside = inside[:-1] if inside[-1:] in signs and inside else inside
    return inside.strip()


def _pieces(text: str) -> list[_Piece]:
    spans = [match.span() for match in _CODE.finditer(text)]
    starts = [start for start, _ in spans]
    pieces: list[_Piece] = []
    position, line = 0, 1
    marks = _marks(text)
    mark = next(marks, None)
    while mark is not None:
        pieces.append(_Piece("text", text[position : mark.start]))
        line += text.count("\n", position, mark.start)
        place = bisect_right(starts, mark.start) - 1
        in_code = place >= 0 and mark.start < spans[place][1]
        end = mark.end
        if mark.tag is not None and mark.tag.split(None, 1)[:1] == ["raw"]:
            close = _END_OF_RAW.search(text, end)
            stop, end = (close.start(), close.end()) if close else (len(text), len(text))
            pieces.append(_Piece("text", text[mark.end : stop]))
        elif mark.tag is not None:
            alone = _is_alone(text, mark.start, mark.end)
            pieces.append(_Piece("tag", mark.tag, mark.raw, line, in_code, alone))
        elif mark.output is not None:
            pieces.append(_Piece("output", mark.output, mark.raw, line, in_code))
        position = _after_trim(text, mark.raw, end)
        line += text.count("\n", mark.start, position)
        mark = _next_mark(marks, position)
    pieces.append(_Piece("text", text[position:]))
    return pieces


def _next_mark(marks: Generator[_Mark, int, None], position: int) -> _Mark | None:
    try:
        return marks.send(position)
    except StopIteration:
        return None


def _is_alone(text: str, start: int, end: int) -> bool:
    before = text[max(0, start - LINE_SIDE) : start]
    after = text[end : end + LINE_SIDE]
    left, right = before.rpartition("\n")[2], after.partition("\n")[0]
    if LINE_SIDE in (len(left), len(right)):  # no line end near by: a line of text
        return False
    return not left.strip(" \t>") and not right.strip()


def _after_trim(text: str, mark: str, end: int) -> int:
    if not mark.endswith("-%}"):
        return end
    gap = _GAP.match(text, end)
    return gap.end() if gap else end


def _parse(pieces: list[_Piece]) -> list[_Node]:
    """Build the tree; a closing tag without its opening one is left as a plain node."""
    root: list[_Node] = []
    stack: list[tuple[_Node, str]] = []
    for piece in pieces:
        target = stack[-1][0].branches[-1][1] if stack else root
        word = piece.body.split(None, 1)[0] if piece.kind == "tag" and piece.body else ""
        if stack and word in _CLOSERS[stack[-1][1]]:
            stack.pop()
        elif stack and word in _BRANCHES and stack[-1][1] in ("if", "unless", "for", "case"):
            stack[-1][0].branches.append((piece.body, []))
        elif word in _CLOSERS and len(stack) < MAX_BLOCKS:
            node = _Node(piece, [(piece.body, [])])
            target.append(node)
            stack.append((node, word))
        else:
            target.append(_Node(piece))
    return root


class _Renderer:
    """Walks the tree; ``set`` and ``assign`` change the variables for what follows."""

    def __init__(
        self,
        variables: dict[str, Any],
        include: Include,
        warnings: list[str],
        blank_none: bool,
        trail: tuple[str, ...],
        skip_code: bool = False,
    ) -> None:
        self.variables = variables
        self.include = include
        self.warnings = warnings
        self.blank_none = blank_none
        self.trail = trail
        self.skip_code = skip_code
        self.turns = [MAX_TURNS]

    def render(self, nodes: list[_Node]) -> str:
        return "".join(map(self._node, nodes))

    def _warn(self, piece: _Piece, reason: str) -> None:
        message = f"line {piece.line}: {reason}: {' '.join(piece.raw.split())}"
        tail = message.partition(": ")[2]
        if not any(warning.endswith(tail) for warning in self.warnings):
            self.warnings.append(message)

    def _node(self, node: _Node) -> str:
        piece = node.piece
        if piece.kind == "text":
            return piece.body
        if piece.kind == "output":
            return self._output(piece)
        word, _, rest = piece.body.partition(" ")
        handler = getattr(self, f"_tag_{word}", None)
        if handler is None:
            return self._unknown(node)
        return str(handler(node, rest.strip()))

    def _output(self, piece: _Piece) -> str:
        if piece.in_code and self.skip_code:
            return piece.raw
        value = evaluate(piece.body, self.variables)
        if value is not UNRESOLVED and (value is not None or self.blank_none):
            return value if isinstance(value, str) else as_text(value)
        if piece.in_code:
            return piece.raw
        self._warn(piece, "value is not known")
        return f"<{piece.body}>" if piece.body else ""

    def _unknown(self, node: _Node) -> str:
        inside = "".join(self.render(nodes) for _, nodes in node.branches)
        if node.piece.in_code:
            return node.piece.raw + inside
        if not node.piece.body.startswith(
            ("end", "else", "extends", "from", "import", "seo", "toc")
        ):
            self._warn(node.piece, "tag is not known")
        return inside

    def _tag_if(self, node: _Node, rest: str) -> str:
        """Render the first true branch; where truth cannot be known, the text of them all."""
        kept: list[str] = []
        for place, (head, nodes) in enumerate(node.branches):
            word, _, condition = head.partition(" ")
            truth = True if word == "else" else is_true(condition, self.variables)
            if place == 0 and word == "unless" and truth is not None:
                truth = not truth
            if truth:
                kept.append(self.render(nodes))
                break
            if truth is None:
                kept.append(self.render(nodes))
        return "".join(kept)

    _tag_unless = _tag_if

    def _tag_for(self, node: _Node, rest: str) -> str:
        match = re.match(
            r"([\w, ]+?)\s+in\s+(.+?)(?:\s+(?:limit|offset|reversed).*)?$", rest, re.DOTALL
        )
        values = evaluate(match.group(2), self.variables) if match else UNRESOLVED
        if match is None or values is UNRESOLVED:
            if node.piece.in_code:
                return node.piece.raw + self.render(node.branches[0][1])
            self._warn(node.piece, "list is not known, the loop was left out")
            return ""
        names = [name.strip() for name in match.group(1).split(",")]
        outer = dict(self.variables)
        rendered: list[str] = []
        for value in list(values or ())[:MAX_TURNS]:
            if self.turns[0] <= 0:
                self._warn(
                    node.piece, f"loops take more than {MAX_TURNS} turns, the rest was left out"
                )
                break
            self.turns[0] -= 1
            rendered.append(self._turn(names, value, node))
        self.variables = outer
        return "".join(rendered)

    def _turn(self, names: list[str], value: Any, node: _Node) -> str:
        values = list(value) if len(names) > 1 and isinstance(value, (list, tuple)) else [value]
        self.variables |= dict(zip(names, values, strict=False))
        return self.render(node.branches[0][1])

    def _tag_set(self, node: _Node, rest: str) -> str:
        name, sign, expression = rest.partition("=")
        if sign:
            value = evaluate(expression, self.variables)
            if value is UNRESOLVED:
                self.variables.pop(name.strip(), None)
            else:
                self.variables[name.strip()] = value
        return ""

    _tag_assign = _tag_set

    def _tag_capture(self, node: _Node, rest: str) -> str:
        text = self.render(node.branches[0][1])
        self.variables[rest.strip("'\"")] = text[:MAX_LENGTH]
        return ""

    def _tag_comment(self, node: _Node, rest: str) -> str:
        return ""

    _tag_macro = _tag_comment

    def _tag_highlight(self, node: _Node, rest: str) -> str:
        code = self.render(node.branches[0][1]).strip("\n")
        return f"```{rest.split(' ')[0]}\n{code}\n```"

    def _tag_include(self, node: _Node, rest: str) -> str:
        if node.piece.in_code and not self.trail and "\n" not in rest:
            resolved = self._included(rest)
            return node.piece.raw if resolved is None else resolved
        resolved = self._included(rest)
        if resolved is None:
            is_loop = self._shown(rest) in self.trail
            reason = "file includes itself" if is_loop else "include target is missing"
            self._warn(node.piece, reason)
            return _figure_text(rest) or ("" if node.piece.is_alone else _target_words(rest))
        return resolved

    _tag_include_relative = _tag_include

    def _included(self, rest: str) -> str | None:
        """Return the rendered text of an include, or None."""
        shown = self._shown(rest)
        match = re.match(r"""["']([^"']+)["']|(\S+)""", shown)
        if match is None or shown in self.trail or len(self.trail) >= MAX_DEPTH:
            return None
        target = match.group(1) or match.group(2)
        text = self.include(target.lstrip("/"))
        if text is None:
            return None
        parameters = dict(re.findall(r"""([\w-]+)\s*=\s*["']([^"']*)["']""", shown))
        variables = {**self.variables, "include": parameters}
        return render_template(
            text,
            variables,
            self.include,
            self.warnings,
            blank_none=self.blank_none,
            skip_code=self.skip_code,
            turns=self.turns,
            trail=(*self.trail, shown),
        )

    def _shown(self, rest: str) -> str:
        """Return target and parameters of an include with known values put in."""
        return re.sub(r"\{\{(.*?)\}\}", self._inline, rest)

    def _inline(self, match: re.Match[str]) -> str:
        value = evaluate(match.group(1), self.variables)
        return match.group() if value is UNRESOLVED else as_text(value)


def _target_words(rest: str) -> str:
    """Return the name of a missing include as a placeholder that keeps a sentence readable."""
    match = re.match(r"""["']?([^"'\s]+)""", rest)
    name = match.group(1).rpartition("/")[2].partition(".")[0] if match else ""
    return f"<{name.replace('_', ' ')}>" if name else ""


def _figure_text(rest: str) -> str:
    """Return the caption or alternative text that a missing figure include was given."""
    found = dict(re.findall(r"""(alt|caption|title)\s*=\s*"([^"]*)\"""", rest))
    text = " ".join((found.get("caption") or found.get("alt") or found.get("title") or "").split())
    return f"[Figure: {text}]" if text else ""
