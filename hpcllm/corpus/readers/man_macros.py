"""The interpreter of man(7) macros: a page in, blocks of canonical Markdown out.

Role: macro level of :mod:`hpcllm.corpus.readers.manpage`; the character level is
:mod:`hpcllm.corpus.readers.roff`. Macros are those of man(7) and groff_man(7), plus the requests
of roff that pages in the wild use; what only concerns the look of a printed page is ignored.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hpcllm.corpus.readers.base import RawFile, ReadResult, decode_text, file_inside
from hpcllm.corpus.readers.blocks import (
    Block,
    Code,
    Definitions,
    Heading,
    Item,
    Listing,
    Paragraph,
    Term,
    plain,
    render,
)
from hpcllm.corpus.readers.man_inline import (
    Anchors,
    both_options,
    markdown,
    option_name,
    tidied,
    with_synopsis,
)
from hpcllm.corpus.readers.roff import Roff, Run, arguments, logical_lines, merged
from hpcllm.corpus.readers.roff_tables import read_table
from hpcllm.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Callable

FONT_MACROS = {"B": "B", "I": "I", "R": "R", "SB": "B", "SM": "R", "BR": "BR", "RB": "RB",
               "BI": "BI", "IB": "IB", "IR": "IR", "RI": "RI"}  # fmt: skip
BULLETS = frozenset("•*-–—o+·○□")
NUMBER = re.compile(r"\(?(\d{1,3})[.)]$")
SKIP_UNTIL_DOTS = frozenset(("ig", "am", "ami", "de1", "dei"))
DEPTH_LIMIT = 8
"""Includes and macros inside one another, and indented levels beyond which nothing nests."""
CALL_LIMIT = 20_000
"""Macros called and pages included by one page; those that call one another grow endlessly."""


@dataclass(slots=True)
class Frame:
    """One level of indentation: where its blocks go and the item open in it, if any."""

    blocks: list[Block]
    open: list[Block] | None = None

    @property
    def target(self) -> list[Block]:
        """Where the next block goes: into the open item, else to the level itself."""
        return self.blocks if self.open is None else self.open


@dataclass(slots=True)
class ManPage:
    """A page being interpreted; :meth:`run` once, then :meth:`result`."""

    raw: RawFile
    roff: Roff = field(default_factory=Roff)
    blocks: list[Block] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    prose: list[Run] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    macros: dict[str, list[str]] = field(default_factory=dict)
    anchors: Anchors = field(init=False)
    warnings: list[str] = field(default_factory=list)
    includes: set[str] = field(default_factory=set)
    calls: int = 0
    header: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    unfilled: bool = False
    compact: bool = False
    condition: bool = False
    next_font: str = ""
    expects: str = ""
    link: str = ""

    def __post_init__(self) -> None:
        self.anchors = Anchors(self.raw.options)

    def run(self, text: str, depth: int = 0) -> None:
        """Interpret the lines of ``text``."""
        if depth > DEPTH_LIMIT:
            self.warnings.append("macros or includes nest too deeply: the innermost were left out")
            return
        self.calls += 1
        if self.calls > CALL_LIMIT:
            self.warnings.append(f"more than {CALL_LIMIT} macro calls: the rest was left out")
            return
        outer, self.lines = self.lines, logical_lines(text)[::-1]
        self.frames = self.frames or [Frame(self.blocks)]
        while self.lines:
            self._line(self.lines.pop(), depth)
        self.lines = outer
        if depth == 0:
            self._flush()

    def result(self) -> ReadResult:
        """Return the finished page."""
        name, section = [*self.header, "", ""][:2]
        title = f"{name}({section})" if name and section else name or self.raw.stem
        text = render(with_synopsis(tidied(self.blocks)))
        found = re.search(r"(?m)^## NAME.*\n\n.*? [-—–]+ (.+)$", text)
        values = {"section": section, "manual": [*self.header, *[""] * 5][4],
                  "description": plain(found[1]) if found else ""}  # fmt: skip
        return ReadResult(
            title=title,
            text=text,
            metadata={key: value for key, value in values.items() if value},
            warnings=tuple(dict.fromkeys(self.warnings)),
            includes=tuple(sorted(self.includes)),
        )

    # Lines

    def _line(self, line: str, depth: int) -> None:
        request = re.match(r"[.'][ \t]*([A-Za-z][^\s\\]*|\\}|)(?=[\s\\]|$)[ \t]*(.*)", line)
        if line[:1] in ".'" and line and request:
            self._request(request[1], request[2], depth)
        elif line[:1] in ".'" and line:
            self._unknown(line, depth)
        elif not line.strip():
            self._blank()
        else:
            self._text(self.roff.runs(line, self.next_font or None), line[0] in " \t")

    def _text(self, runs: list[Run], indented: bool = False) -> None:
        """Take a line of text, or what a font macro made of its arguments."""
        self.next_font = ""
        if self.expects:
            self._heading_or_tag(runs)
        elif self.unfilled:
            self.code.append("".join(run.text for run in runs))
        elif runs:
            if indented:
                self._break()
            if self.prose and self.prose[-1].text != "\n":
                self.prose.append(Run("R", " "))
            self.prose += runs

    def _blank(self) -> None:
        if self.unfilled:
            self.code.append("")
        elif not self.expects:
            self._flush()

    def _break(self) -> None:
        if self.prose and self.prose[-1].text != "\n" and not self.unfilled:
            self.prose.append(Run("R", "\n"))

    def _flush(self) -> None:
        """Finish the paragraph or the preformatted block that is being collected."""
        text = markdown(merged(self.prose))
        if text.strip():
            self.frames[-1].target.append(Paragraph(text))
        if any(line.strip() for line in self.code):
            self.frames[-1].target.append(Code(textwrap.dedent("\n".join(self.code).expandtabs(8))))
        self.prose, self.code = [], []

    # Requests

    def _request(self, name: str, rest: str, depth: int) -> None:
        if name in FONT_MACROS:
            self._font_macro(FONT_MACROS[name], arguments(rest))
        elif name in REQUESTS:
            REQUESTS[name](self, rest)
        elif name == "nop":
            self._line(rest, depth)
        elif name in ("if", "ie", "el", "while"):
            self._conditional(name, rest, depth)
        elif name == "so":
            self._include(rest, depth)
        elif name in SKIP_UNTIL_DOTS:
            self._skip_definition(rest)
        elif name in self.macros:
            self._call(name, rest, depth)

    def _unknown(self, line: str, depth: int) -> None:
        """Keep a line that starts with a full stop and is no request, such as ``...``."""
        if line[1:2] == "\\" or re.match(r"[.']{2,3}$", line) or not line[1:].strip():
            return
        if line[0] == "'" or line[1] in "./0123456789":
            self._text(self.roff.runs(line))

    def _font_macro(self, fonts: str, words: list[str]) -> None:
        if not words:
            self.next_font = fonts if len(fonts) == 1 else ""
            return
        if len(fonts) == 1:
            self._text(self.roff.runs(" ".join(words), fonts))
            return
        pairs = ((word, fonts[place % 2]) for place, word in enumerate(words))
        self._text(merged([run for word, font in pairs for run in self.roff.runs(word, font)]))

    def _include(self, rest: str, depth: int) -> None:
        """Read a page that ``.so`` names: from the root of the manual, or beside this one."""
        name = rest.strip()
        folders = self.raw.path.split("/")[:-1]
        places = ["/".join([*folders[:n], name]) for n in range(len(folders), -1, -1)]
        for place in [*places, *(f"{place}.gz" for place in places)]:
            file = file_inside(self.raw.root, place)
            if file is not None:
                self._read_include(place, file.read_bytes(), depth)
                return
        self.warnings.append(f"include target {name} is missing")

    def _read_include(self, place: str, data: bytes, depth: int) -> None:
        from hpcllm.corpus.readers.manpage import unpacked

        self.includes.add(place)
        try:
            content = unpacked(RawFile(place, data, self.raw.root))
            self.run(decode_text(content, place), depth + 1)
        except IngestError as exc:
            self.warnings.append(str(exc))

    def _skip_definition(self, rest: str) -> list[str]:
        """Take the lines up to the end of a macro definition out of the page."""
        end = "." + (rest.split()[1] if len(rest.split()) > 1 else ".")
        body: list[str] = []
        while self.lines:
            line = self.lines.pop()
            if re.sub(r"^\.\s+", ".", line.rstrip()) == end:
                break
            body.append(line)
        return body

    def define(self, rest: str) -> None:
        """Record a macro that the page defines itself, unless it redefines one known here."""
        body = self._skip_definition(rest)
        name = (rest.split() or [""])[0]
        if name and name not in REQUESTS and name not in FONT_MACROS:
            self.macros[name] = body

    def _call(self, name: str, rest: str, depth: int) -> None:
        words = arguments(rest)
        body = "\n".join(self.macros[name]).replace("\\\\", "\\")
        filled = re.sub(
            r"\\\$(\d|[*@])",
            lambda m: (
                " ".join(words) if m[1] in "*@" else "".join(words[int(m[1]) - 1 : int(m[1])])
            ),
            body,
        )
        self.run(filled, depth + 1)

    # Conditions

    def _conditional(self, name: str, rest: str, depth: int) -> None:
        if name == "el":
            holds, body = not self.condition, rest
        else:
            holds, body = self.roff.condition(rest)
            self.condition = holds
        if name == "while":
            holds = False
        lines = self._branch(body)
        if holds:
            self.lines += [line for line in lines[::-1] if line.strip()]

    def _branch(self, body: str) -> list[str]:
        """Return the lines a condition governs: the rest of its line, or a block in braces."""
        if not body.lstrip().startswith("\\{"):
            return [body]
        found = [body.lstrip()[2:]]
        level = _braces(body)
        while level > 0 and self.lines:
            line = self.lines.pop()
            level += _braces(line)
            found.append(line)
        text = found[-1]
        found[-1] = re.sub(r"[.']?\s*\\}\s*$", "", text)
        return found

    # Structure

    def heading(self, level: int, rest: str) -> None:
        """Start a section; without arguments the next line is its title."""
        self._flush()
        self.unfilled, self.compact = False, False
        self.frames = [Frame(self.blocks)]
        self.roff.set_font("R")
        words = arguments(rest)
        self.expects = f"heading {level}"
        if words:
            self._heading_or_tag(self.roff.runs(" ".join(words)))
        self.roff.set_font("R")

    def tagged(self, rest: str = "") -> None:
        """Start a definition item whose name is the next line."""
        del rest
        self._flush()
        self.frames[-1].open = None
        self.expects = "tag"

    def indented(self, rest: str) -> None:
        """Start an item with its mark as argument, or go on in the open one without."""
        self._flush()
        words = arguments(rest)
        if words and self.roff.plain(words[0]).strip():
            self.frames[-1].open = None
            self.expects = "tag"
            self._heading_or_tag(self.roff.runs(words[0]))

    def paragraph(self, rest: str = "") -> None:
        """Start a paragraph at the margin."""
        del rest
        self._flush()
        self.expects = ""
        self.roff.set_font("R")
        self.frames[-1].open = None

    def deeper(self, rest: str = "") -> None:
        """Indent what follows, inside the open item."""
        del rest
        self._flush()
        target = (
            self.frames[-1].target if len(self.frames) < DEPTH_LIMIT else self.frames[-1].blocks
        )
        self.frames.append(Frame(target))

    def shallower(self, rest: str = "") -> None:
        """End an indentation."""
        levels = int(rest) if rest.strip().isdecimal() else len(self.frames) - 1
        self._flush()
        keep = max(1, min(levels, len(self.frames) - 1))
        del self.frames[keep:]

    def preformatted(self, start: bool) -> None:
        """Switch filling off or on."""
        if start != self.unfilled:
            self._flush()
        self.unfilled = start

    def spacing(self, rest: str = "") -> None:
        """End the paragraph without leaving the item."""
        del rest
        if self.unfilled:
            self.code.append("")
        elif not self.expects:
            self._flush()

    def table(self, rest: str = "") -> None:
        """Read a table up to ``.TE``."""
        del rest
        self._flush()
        lines: list[str] = []
        while self.lines and not re.match(r"\.\s*TE", self.lines[-1]):
            lines.append(self.lines.pop())
        self.frames[-1].target.append(
            read_table(lines, lambda text: markdown(self.roff.runs(text, "R")))
        )

    def synopsis(self, rest: str) -> None:
        """Start the line of a command's synopsis."""
        self._break()
        self._text(self.roff.runs(rest, "B"))

    def option(self, rest: str) -> None:
        """Add an optional argument to a synopsis."""
        self._text(self.roff.runs(f"[{' '.join(arguments(rest))}]"))

    def reference(self, rest: str) -> None:
        """Add a reference to another page."""
        words = [*arguments(rest), "", "", ""]
        self._text(self.roff.runs(f"\\fB{words[0]}\\fR({words[1]}){words[2]}"))

    def address(self, rest: str) -> None:
        """Start a link; its text follows up to ``.UE``."""
        self.link = self.roff.plain(rest).strip()

    def address_end(self, rest: str) -> None:
        """End a link: the address after its text, and the punctuation given."""
        said = "".join(run.text for run in self.prose)
        tail = (arguments(rest) or [""])[0]
        if self.link and self.link not in said[-len(self.link) - 2 :]:
            self._text([Run("R", f"<{self.link}>")])
        self.prose.append(Run("R", self.roff.plain(tail)))
        self.link = ""

    def address_of(self, rest: str) -> None:
        """Add a named address, as asciidoctor's macros give it: address, name, punctuation."""
        words = [*arguments(rest), "", "", ""]
        shown = f"{words[1]} <{words[0]}>" if words[1] else words[0]
        self._text(self.roff.runs(f"{shown}{words[2]}"))

    def alias(self, rest: str) -> None:
        """Give a macro that the page defines another name."""
        words = rest.split()
        if len(words) == 2 and words[1] in self.macros and words[0] not in REQUESTS:
            self.macros[words[0]] = self.macros[words[1]]

    def set_string(self, rest: str) -> None:
        """Define a string."""
        name, _, value = rest.partition(" ")
        self.roff.strings[name] = value.lstrip(" ").removeprefix(chr(34)).replace("\\\\", "\\")

    def set_register(self, rest: str) -> None:
        """Set a number register and its increment."""
        words = [*rest.split(), "", "", ""]
        numbers = [int(w) if re.fullmatch(r"-?\d{1,9}", w) else 0 for w in words[1:3]]
        self.roff.registers[words[0]], self.roff.steps[words[0]] = numbers[0], numbers[1]

    # Items

    def _heading_or_tag(self, runs: list[Run]) -> None:
        expected, self.expects = self.expects, ""
        name = "".join(run.text for run in runs).strip()
        if expected.startswith("heading"):
            anchor = self.anchors.of_section(name)
            self.blocks.append(Heading(int(expected[-1]), name, anchor))
        elif name in BULLETS or NUMBER.match(name):
            self._list_item(NUMBER.match(name))
        elif name[0:2] == "• ":
            self._list_item(None)
            self._text(merged([Run(runs[0].font, runs[0].text.lstrip(" •")), *runs[1:]]))
        else:
            self._definition(runs, name)

    def _list_item(self, number: re.Match[str] | None) -> None:
        frame = self.frames[-1]
        last = frame.blocks[-1] if frame.blocks else None
        start = int(number[1]) if number else None
        if not isinstance(last, Listing) or (last.start is None) != (start is None):
            last = Listing(start=start)
            frame.blocks.append(last)
        frame.open = []
        last.items.append(frame.open)

    def _definition(self, runs: list[Run], name: str) -> None:
        frame = self.frames[-1]
        last = frame.blocks[-1] if frame.blocks else None
        if not isinstance(last, Definitions):
            last = Definitions()
            frame.blocks.append(last)
        item = last.items[-1] if last.items else None
        if item is None or item.body or not (self.compact or both_options(item, name)):
            item = Item()
            last.items.append(item)
        item.terms.append(
            Term(markdown(runs, term=True), self.anchors.of_option(option_name(runs, name)))
        )
        frame.open = item.body

    def another_tag(self, rest: str = "") -> None:
        """Give the open item one more name."""
        self.tagged(rest)
        self.compact = True


def _braces(line: str) -> int:
    return line.count("\\{") - line.count("\\}")


def _ignored(page: ManPage, rest: str) -> None:
    """Do nothing: the request concerns the look of a printed page."""


def _title(page: ManPage, rest: str) -> None:
    page.header = [page.roff.plain(word) for word in arguments(rest)]


REQUESTS: dict[str, Callable[[ManPage, str], None]] = {
    "TH": _title,
    "SH": lambda page, rest: page.heading(2, rest),
    "SS": lambda page, rest: page.heading(3, rest),
    "TP": ManPage.tagged,
    "TQ": ManPage.another_tag,
    "IP": ManPage.indented,
    **dict.fromkeys(("PP", "LP", "P", "HP"), ManPage.paragraph),
    "RS": ManPage.deeper,
    "RE": ManPage.shallower,
    **dict.fromkeys(("nf", "EX", "Vb"), lambda page, _: page.preformatted(True)),
    **dict.fromkeys(("fi", "EE", "Ve"), lambda page, _: page.preformatted(False)),
    "TS": ManPage.table,
    "br": lambda page, _: page._break(),
    "ti": lambda page, _: page._break(),
    "sp": ManPage.spacing,
    "Sp": ManPage.spacing,
    "PD": lambda page, rest: setattr(page, "compact", rest.strip().startswith("0")),
    "ft": lambda page, rest: page.roff.set_font(rest.strip()),
    "SY": ManPage.synopsis,
    "YS": lambda page, _: page._break(),
    "OP": ManPage.option,
    "MR": ManPage.reference,
    "UR": ManPage.address,
    "MT": ManPage.address,
    "UE": ManPage.address_end,
    "ME": ManPage.address_end,
    "URL": ManPage.address_of,
    "MTO": ManPage.address_of,
    "als": ManPage.alias,
    "ds": ManPage.set_string,
    "nr": ManPage.set_register,
    "de": ManPage.define,
    "IX": _ignored,
}
"""What each macro or request does; those that are absent here are ignored."""
