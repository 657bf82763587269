r"""The character level of roff: escapes, fonts, glyph names, macro arguments.

Role: what :mod:`hpcllm.corpus.readers.manpage` stands on. Knows nothing of any macro.
Escapes and glyph names are those of groff(7) and groff_char(7).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

GLYPHS = {
    "em": "—", "en": "–", "hy": "-", "-": "-", "mi": "-", "pl": "+", "eq": "=", "rs": "\\",
    "aq": "'", "dq": '"', "lq": "“", "rq": "”", "oq": "‘", "cq": "’", "Bq": "„", "bq": "‚",
    "ga": "`", "aa": "´", "ha": "^", "ti": "~", "a^": "^", "a~": "~", "ul": "_", "ru": "_",
    "bu": "•", "ci": "○", "sq": "□", "lz": "◊", "ps": "¶", "sc": "§", "dg": "†", "dd": "‡",
    "at": "@", "sh": "#", "Do": "$", "sl": "/", "ba": "|", "bv": "|", "br": "|", "or": "|",
    "lB": "[", "rB": "]", "lC": "{", "rC": "}", "la": "⟨", "ra": "⟩", "Fo": "«", "Fc": "»",
    "fo": "‹", "fc": "›", "co": "©", "rg": "®", "tm": "™", "de": "°", "mc": "µ", "ct": "¢",
    "Eu": "€", "eu": "€", "Po": "£", "Ye": "¥", "%0": "‰", "fm": "′", "sd": "″", "mu": "×",
    "di": "÷", "+-": "±", "**": "*", "<=": "≤", ">=": "≥", "!=": "≠", "==": "≡", "~~": "≈",
    "~=": "≅", "ap": "~", "if": "∞", "sr": "√", "pd": "∂", "es": "∅", "mo": "∈", "nm": "∉",
    "sb": "⊂", "sp": "⊃", "ca": "∩", "cu": "∪", "AN": "∧", "OR": "∨", "no": "¬", "tno": "¬",
    "fa": "∀", "te": "∃", "->": "→", "<-": "←", "<>": "↔", "ua": "↑", "da": "↓", "rA": "⇒",
    "lA": "⇐", "hA": "⇔", "12": "½", "14": "¼", "34": "¾", "S1": "¹", "S2": "²", "S3": "³",
    "OK": "✓", "*a": "α", "*b": "β", "*g": "γ", "*d": "δ", "*e": "ε", "*l": "λ", "*m": "μ",
    "*p": "π", "*r": "ρ", "*s": "σ", "*t": "τ", "*f": "φ", "*w": "ω", "*D": "Δ", "*S": "Σ",
    "*W": "Ω", "ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "/o": "ø", "/O": "Ø",
    "oa": "å", "oA": "Å", "/l": "ł", "/L": "Ł", "-D": "Ð", "Sd": "ð", "TP": "Þ", "Tp": "þ",
    "r!": "¡", "r?": "¿", "nbsp": " ", "u2010": "-",
}  # fmt: skip
"""Names of special characters; typewriter forms where documentation means them literally."""

ACCENTS = {
    "'": "\u0301", "`": "\u0300", "^": "\u0302", ":": "\u0308", "~": "\u0303", ",": "\u0327",
    "aa": "\u0301", "ga": "\u0300", "a^": "\u0302", "ad": "\u0308", "a~": "\u0303",
    "ac": "\u0327", "ao": "\u030a", "ab": "\u0306", "ah": "\u030c", "a-": "\u0304",
}  # fmt: skip
"""Combining characters by accent name."""

STRINGS = {"R": "®", "Tm": "™", "lq": "“", "rq": "”", "S": "", "Aq": "'", "C+": "C++", "PI": "π"}
"""Strings that man macro packages define."""

SIMPLE = {
    "-": "-", "e": "\\", "\\": "\\", " ": " ", "~": " ", "0": " ", "t": "\t", "'": "´", "`": "`",
    ".": ".", "&": "", ")": "", "/": "", ",": "", ":": "", "%": "", "|": "", "^": "", "c": "",
    "d": "", "u": "", "p": "", "r": "", "a": "", "{": "", "}": "", "!": "", "E": "\\", "_": "_",
}  # fmt: skip
"""Escapes of one character."""

NAMED = frozenset("*nfFmMkgYVsS")
"""Escapes that take a name: one character, ``(xx`` or ``[any]``."""
DELIMITED = frozenset("hvwlLDoNXHZRbABxC")
"""Escapes that take an argument between delimiters."""

COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)\\[\"#].*")
EXPANSION_LIMIT = 50_000
"""Strings put into one page; strings that hold one another grow without bounds."""
FONTS = {"1": "R", "2": "I", "3": "B", "4": "B", "R": "R", "I": "I", "B": "B", "BI": "B",
         "CB": "B", "CI": "I", "CR": "R", "CW": "R", "C": "R", "P": "P", "": "P"}  # fmt: skip
"""Font names, reduced to roman, italic and bold; P is the one before."""


@dataclass(frozen=True, slots=True)
class Run:
    """Text in one font: ``R``, ``B`` or ``I``."""

    font: str
    text: str


@dataclass(slots=True)
class Roff:
    """What escapes depend on: the font, strings and number registers.

    Attributes:
        font: current font.
        previous: the font before it.
        strings: defined strings.
        expansions: strings put into the page so far.
        registers: number registers.
        steps: increments of registers.
    """

    font: str = "R"
    previous: str = "R"
    strings: dict[str, str] = field(default_factory=lambda: dict(STRINGS))
    expansions: int = 0
    registers: dict[str, int] = field(default_factory=lambda: {".g": 1, "F": 0})
    steps: dict[str, int] = field(default_factory=dict)

    def set_font(self, name: str) -> None:
        """Switch to a font by its roff name; unknown ones count as roman."""
        wanted = FONTS.get(name, "R")
        self.font, self.previous = (self.previous if wanted == "P" else wanted), self.font

    def runs(self, text: str, font: str | None = None) -> list[Run]:
        """Return ``text`` with its escapes resolved, split where the font changes.

        Args:
            text: roff text of one line.
            font: font to set it in, after which the current one is restored; None keeps the
                current one, and changes of font last.
        """
        saved = (self.font, self.previous)
        if font is not None:
            self.font, self.previous = font, font
        found = self._scan(text, 0)
        if font is not None:
            self.font, self.previous = saved
        return merged(found)

    def plain(self, text: str) -> str:
        """Return ``text`` with its escapes resolved and fonts ignored."""
        return "".join(run.text for run in self.runs(text, "R"))

    def condition(self, rest: str) -> tuple[bool, str]:
        """Return whether the condition that ``rest`` starts with holds, and what follows it."""
        negated = rest.startswith("!")
        rest = rest[negated:].lstrip()
        compared = re.match(r"(['\"])(.*?)\1(.*?)\1\s*(.*)", rest)
        if compared:
            same = self.plain(compared[2]) == self.plain(compared[3])
            return same != negated, compared[4]
        word, _, body = rest.partition(" ")
        if "\\{" in word:
            word, brace, tail = word.partition("\\{")
            body = brace + tail + " " + body
        if word in ("n", "t", "o", "e", "v"):
            return (word in ("n", "o")) != negated, body
        value = self.plain(word).strip("()")
        return (value.isdecimal() and int(value) > 0) != negated, body

    def _scan(self, text: str, depth: int) -> list[Run]:
        found: list[Run] = []
        position = 0
        while position < len(text):
            slash = text.find("\\", position)
            if slash < 0:
                found.append(Run(self.font, text[position:]))
                break
            found.append(Run(self.font, text[position:slash]))
            position = self._escape(text, slash + 1, found, depth)
        return found

    def _escape(self, text: str, at: int, found: list[Run], depth: int) -> int:
        """Resolve the escape whose letter stands at ``at``; return where the text goes on."""
        letter = text[at : at + 1]
        if letter in "([":
            name, end = _name(text, at)
            found.append(Run(self.font, glyph(name)))
            return end
        if letter in NAMED and letter:
            return self._named(letter, text, at + 1, found, depth)
        if letter in DELIMITED and letter:
            argument, end = _delimited(text, at + 1)
            found.append(Run(self.font, self._with_argument(letter, argument)))
            return end
        found.append(Run(self.font, SIMPLE.get(letter, letter)))
        return at + (2 if letter == "z" else 1)

    def _named(self, letter: str, text: str, at: int, found: list[Run], depth: int) -> int:
        sign = text[at : at + 1] if letter in "ns" and text[at : at + 1] in "+-" else ""
        name, end = _name(text, at + len(sign))
        if letter == "s" and re.match(r"[1-3]\d", text[at + len(sign) :]) and not sign:
            return end + 1  # two-digit point sizes need no bracket
        if letter == "f":
            self.set_font(name)
        elif letter == "n":
            found.append(Run(self.font, str(self._register(name, sign))))
        elif letter == "*" and depth < 5 and self.expansions < EXPANSION_LIMIT:
            self.expansions += 1
            found.extend(self._scan(self.strings.get(name.split(" ")[0], ""), depth + 1))
        return end

    def _register(self, name: str, sign: str) -> int:
        if sign:
            step = self.steps.get(name, 0)
            self.registers[name] = self.registers.get(name, 0) + (step if sign == "+" else -step)
        return self.registers.get(name, 0)

    def _with_argument(self, letter: str, argument: str) -> str:
        if letter == "N" and re.fullmatch(r"[0-9]{1,7}", argument):
            return character(int(argument))
        if letter == "C":
            return glyph(argument)
        if letter == "o":
            return self.plain(argument)[:1]
        # A motion to the right stands for space: tables are often aligned by hand with it.
        return " " if letter == "h" and not argument.startswith("-") else ""


def glyph(name: str) -> str:
    """Return the character called ``name`` in roff; an unknown name gives nothing.

    >>> glyph("em"), glyph("u00E9"), glyph("'e"), glyph("e aa")
    ('—', 'é', 'é', 'é')
    """
    if name in GLYPHS:
        return GLYPHS[name]
    if re.fullmatch(r"u[0-9A-Fa-f]{4,6}(_[0-9A-Fa-f]{4,6})*", name):
        points = [int(part, 16) for part in name[1:].split("_")]
        return unicodedata.normalize("NFC", "".join(map(character, points)))
    if re.fullmatch(r"char\d{1,7}", name):
        return character(int(name[4:]))
    letter, _, accent = name.partition(" ")
    if accent in ACCENTS:
        return unicodedata.normalize("NFC", letter + ACCENTS[accent])
    if len(name) == 2 and name[0] in ACCENTS and name[1].isalpha():
        return unicodedata.normalize("NFC", name[1] + ACCENTS[name[0]])
    return name if len(name) == 1 else ""


def character(point: int) -> str:
    """Return the character at a code point; nothing for controls and what is no character."""
    printable = 32 <= point < 0xD800 or 0xE000 <= point < 0x110000
    return chr(point) if printable else ""


def _name(text: str, at: int) -> tuple[str, int]:
    """Read a name at ``at``: ``(xx``, ``[any]`` or one character; return it and its end."""
    if text[at : at + 1] == "(":
        return text[at + 1 : at + 3], at + 3
    if text[at : at + 1] == "[":
        end = text.find("]", at)
        return (text[at + 1 : end], end + 1) if end > 0 else (text[at + 1 :], len(text))
    return text[at : at + 1], at + 1


def _delimited(text: str, at: int) -> tuple[str, int]:
    mark = text[at : at + 1]
    end = text.find(mark, at + 1) if mark else -1
    return (text[at + 1 : end], end + 1) if end > 0 else ("", len(text))


def merged(runs: list[Run]) -> list[Run]:
    """Return ``runs`` without empty ones, neighbours in one font joined."""
    result: list[Run] = []
    for run in runs:
        if result and result[-1].font == run.font:
            result[-1] = Run(run.font, result[-1].text + run.text)
        elif run.text:
            result.append(run)
    return result


def arguments(text: str) -> list[str]:
    r"""Split macro arguments at spaces; quotes group, ``""`` inside quotes is one quote.

    >>> arguments('one "two words" \\fB\\ x\\fR')
    ['one', 'two words', '\\fB\\ x\\fR']
    """
    found = re.findall(r'"((?:[^"]|"")*)(?:"|$)\s*|((?:\\.|[^\s\\]|\\$)+)\s*', text.strip())
    return [bare or quoted.replace('""', '"') for quoted, bare in found]


def logical_lines(text: str) -> list[str]:
    """Split a page into lines: comments cut, lines that end in a backslash joined."""
    lines: list[str] = []
    pending = ""
    for line in text.split("\n"):
        commented = COMMENT.search(line)
        whole = pending + (COMMENT.sub(r"\1", line).rstrip() if commented else line)
        pending = ""
        if commented and whole.strip() in ("", ".", "'"):
            continue
        slashes = len(whole) - len(whole.rstrip("\\"))
        if slashes % 2 and not commented:
            pending = whole[:-1]
        else:
            lines.append(whole)
    return [*lines, pending] if pending else lines
