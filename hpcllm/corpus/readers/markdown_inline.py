"""Inline tokens of a Markdown parse as canonical inline Markdown.

Role: keeps text, emphasis, code and links; resolves inline HTML, footnotes and roles; drops icon
shortcodes and attribute lists. Angle brackets around a word that is no HTML tag are a
placeholder (``<username>``) and stay.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import unescape
from typing import TYPE_CHECKING

from hpcllm.corpus.readers.base import is_badge, word_set
from hpcllm.corpus.readers.blocks import emphasised

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from markdown_it.token import Token

HTML_TAGS = word_set(
    """a abbr address article aside audio b big blockquote br button canvas caption center cite
    code col colgroup dd del details dfn div dl dt em embed fieldset figcaption figure font
    footer form h1 h2 h3 h4 h5 h6 head header hr html i iframe img input ins kbd label
    legend li link main map mark meta nav nobr noscript object ol optgroup option p param
    picture pre q s samp script section select small source span strike strong style sub
    summary sup svg table tbody td textarea tfoot th thead tr tt u ul var video wbr"""
)
"""Names that a browser would take for markup; any other is a placeholder of the author."""

_ATTRIBUTE = r"""(?:[.#][\w:-]+|[\w:-]+=(?:"[^"]*"|'[^']*'|[^\s"'{}]+)|:?target="?_blank"?)"""
ATTRIBUTES = re.compile(rf"[ ]?\{{:?[ ]*{_ATTRIBUTE}(?:[ ]+{_ATTRIBUTE})*[ ]*\}}|\{{:[^{{}}\n]*\}}")
"""An attribute list of Python-Markdown or kramdown."""

_ANCHOR_ID = re.compile(r"#([\w:.-]+)")
_ICON = re.compile(
    r":(?:material|fontawesome|octicons|simple|custom|fa|bi|lucide|tabler)-[a-z0-9-]+:"
    r"|:(?:arrow_(?:up|down|left|right)|bulb|exclamation|fire|heavy_check_mark|information_source|link"
    r"|memo|no_entry|point_right|question|rocket|rotating_light|smile|sparkles|star|tada|warning"
    r"|white_check_mark|wrench|x|zap):"
)
_YES = re.compile(r"check|success|done")
_NO = re.compile(r"close|cancel|:x:|no_entry|remove|minus")
_UNRESOLVED_LINK = re.compile(r"(?<![\w\]])\[([^\[\]\n]+)\][ ]?\[(?:[\w][\w .:/-]*)?\]")
_TAG = re.compile(r"</?([A-Za-z][\w-]*)")
_HTML_ATTRIBUTE = re.compile(r"""([\w:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+))""")
_ROLE = re.compile(r"\{([a-z][\w:.-]*)\}$")
_TEXT_ROLES = frozenset({"ref", "doc", "numref", "any", "term", "eq", "cite", "abbr", "sub", "sup"})
_CODE_TAGS = frozenset({"code", "tt", "samp", "kbd", "var"})
_MARKS = {"b": "**", "strong": "**", "i": "*", "em": "*", "del": "~~", "s": "~~", "strike": "~~"}


@dataclass(slots=True)
class _Span:
    """An element that is open: its tag, target, and the text so far."""

    tag: str
    target: str = ""
    parts: list[str] = field(default_factory=list)


@dataclass(slots=True)
class InlineText:
    """What a run of inline tokens says.

    Attributes:
        text: canonical inline Markdown; line feeds are line ends of the source.
        anchors: ids that stood in it, in order.
    """

    text: str
    anchors: tuple[str, ...] = ()


def html_attributes(tag: str) -> dict[str, str]:
    """Return the attributes of one HTML tag, entities resolved."""
    found = _HTML_ATTRIBUTE.findall(tag)
    return {name.lower(): unescape(a or b or c) for name, a, b, c in found}


def render_inline(
    tokens: Sequence[Token], notes: Mapping[int, str], *, line_break: str = "\n"
) -> InlineText:
    """Render the children of an inline token.

    Args:
        tokens: the children.
        notes: text of footnotes by id; a note is put in where it is first referred to.
        line_break: what a forced line break becomes.
    """
    return _Renderer(notes, line_break).render(tokens)


class _Renderer:
    def __init__(self, notes: Mapping[int, str], line_break: str) -> None:
        self.notes = notes
        self.line_break = line_break
        self.spans = [_Span("")]
        self.anchors: list[str] = []
        self.icons: list[str] = []
        self.after = ""

    def render(self, tokens: Sequence[Token]) -> InlineText:
        for token in tokens:
            handler = getattr(self, f"_{token.type}", None)
            if handler is not None:
                handler(token)
            elif token.content:
                self._put(token.content)
            self.after = token.type
        while len(self.spans) > 1:
            self._close(self.spans[-1].tag)
        text = tidy_lines("".join(self.spans[0].parts))
        return InlineText(text or _icon_word(" ".join(self.icons)), tuple(self.anchors))

    def _put(self, text: str) -> None:
        if text:
            self.spans[-1].parts.append(text)

    def _open(self, tag: str, target: str = "") -> None:
        self.spans.append(_Span(tag, target))

    def _close(self, tag: str) -> None:
        """Close the innermost open ``tag`` and what stands open inside it."""
        if not any(span.tag == tag for span in self.spans[1:]):
            return
        while True:
            span = self.spans.pop()
            self._put(_finished(span, "".join(self.spans[-1].parts)))
            if span.tag == tag:
                return

    # ---- tokens -------------------------------------------------------------------------------

    def _text(self, token: Token) -> None:
        text = token.content
        if "{" in text:
            text = ATTRIBUTES.sub(self._attributes, text)
        if ":" in text:
            self.icons.extend(_ICON.findall(text))
            text = _ICON.sub("", text)
        if "][" in text or "] [" in text:
            text = _UNRESOLVED_LINK.sub(r"\1", text)
        self._put(text)

    def _attributes(self, match: re.Match[str]) -> str:
        anchor = _ANCHOR_ID.search(match.group())
        if anchor and "=" not in match.group().partition("#")[0]:
            self.anchors.append(anchor.group(1))
        return ""

    def _code_inline(self, token: Token) -> None:
        code = re.sub(r"^#!(?:[a-z]\w*) (?=\S)", "", token.content)
        role = _ROLE.search(self.spans[-1].parts[-1]) if self.spans[-1].parts else None
        if role and self.after == "text":
            self.spans[-1].parts[-1] = self.spans[-1].parts[-1][: role.start()]
            if role.group(1).rpartition(":")[2] in _TEXT_ROLES:
                self._put(re.sub(r"\s*<[^<>]*>$", "", code))
                return
        self._put(code_text(code))

    def _softbreak(self, token: Token) -> None:
        self._put("\n")

    def _hardbreak(self, token: Token) -> None:
        self._put(self.line_break)

    def _strong_open(self, token: Token) -> None:
        self._open("strong")

    def _strong_close(self, token: Token) -> None:
        self._close("strong")

    def _em_open(self, token: Token) -> None:
        self._open("em")

    def _em_close(self, token: Token) -> None:
        self._close("em")

    def _s_open(self, token: Token) -> None:
        self._open("s")

    def _s_close(self, token: Token) -> None:
        self._close("s")

    def _link_open(self, token: Token) -> None:
        self._open("link", str(token.attrGet("href") or ""))

    def _link_close(self, token: Token) -> None:
        self._close("link")

    def _image(self, token: Token) -> None:
        source, title = str(token.attrGet("src") or ""), str(token.attrGet("title") or "")
        self._put(figure_text(token.content, source) or figure_text(title, source))

    def _footnote_ref(self, token: Token) -> None:
        number = int(token.meta["id"])
        text = self.notes.get(number, "")
        is_first = token.meta.get("subId", 0) == 0
        self._put(f" (note {number + 1}: {text})" if text and is_first else f" (note {number + 1})")

    def _footnote_anchor(self, token: Token) -> None:
        return

    def _html_inline(self, token: Token) -> None:
        raw = token.content
        name = _TAG.match(raw)
        if raw.startswith(("<!--", "<?", "<!")):
            return
        if name is None or name.group(1).lower() not in HTML_TAGS:
            self._put(raw)
            return
        tag = name.group(1).lower()
        if raw.startswith("</"):
            self._close("link" if tag == "a" else tag)
        elif tag == "br":
            self._put(self.line_break)
        elif tag in ("img", "iframe", "hr", "wbr", "input"):
            self._put(_void(tag, html_attributes(raw)))
        elif not raw.endswith("/>"):
            attributes = html_attributes(raw)
            self.anchors.extend(filter(None, [attributes.get("id") or attributes.get("name")]))
            self._open("link" if tag == "a" else tag, attributes.get("href", ""))


def code_text(code: str) -> str:
    """Return inline code between as many backticks as it needs.

    >>> code_text("a `b`")
    '`` a `b` ``'
    """
    if not code.strip():
        return code
    longest = max(map(len, re.findall(r"`+", code)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{ticks}{pad}{code}{pad}{ticks}"


def figure_text(text: str, source: str = "") -> str:
    """Return the alternative text of an image as it stands in a passage.

    Args:
        text: the alternative text.
        source: the image's address; a badge says nothing about the page and leaves no text.
    """
    if is_badge(source):
        return ""
    words = " ".join(text.split())
    is_name = re.fullmatch(
        r"\S*\.(?:png|jpe?g|gif|svg|webp)|image|alt|alt[ _]text|screenshot|logo", words, re.I
    )
    return f"[Figure: {words}]" if words and not is_name else ""


def _finished(span: _Span, before: str) -> str:
    """Return the canonical text of an element that was closed."""
    text = "".join(span.parts)
    if span.tag in _MARKS:
        return emphasised(text, _MARKS[span.tag])
    if span.tag in _CODE_TAGS:
        return text if "`" in text or not text.strip() else f"`{text}`"
    if span.tag == "sup" and text.strip() and before[-1:].isalnum():
        return f"^{text.strip()}"
    if span.tag == "link":
        return _link(text, span.target)
    if span.tag in ("p", "div", "li", "tr"):
        return f"\n{text}\n" if text.strip() else ""
    if span.tag in ("script", "style"):
        return ""
    return text


def _link(text: str, target: str) -> str:
    words = text.strip()
    if not words or not target:
        return text
    if re.fullmatch(r"\[Figure: [^\]]*\]", words) or words in (
        target,
        target.removeprefix("mailto:"),
    ):
        return words
    address = f"<{target}>" if re.search(r"[\s()]", target) else target
    return f"[{words}]({address})"


def _void(tag: str, attributes: dict[str, str]) -> str:
    if tag == "img":
        return figure_text(attributes.get("alt", ""), attributes.get("src", ""))
    if tag == "iframe" and attributes.get("src", "").startswith("http"):
        return f"[{attributes.get('title') or 'Embedded page'}]({attributes['src']})"
    return ""


def _icon_word(text: str) -> str:
    """Return what an icon that stands alone says: in a table, a tick is the whole answer."""
    if _YES.search(text):
        return "yes"
    return "no" if _NO.search(text) else ""


def tidy_lines(text: str) -> str:
    """Return prose without white space at line ends, empty lines and invisible spaces."""
    text = text.replace("\u200b", "").replace("\xa0", " ")
    text = re.sub(r"[ \t]+\n", "\n", text)
    return re.sub(r"\n{2,}", "\n", text).strip()
