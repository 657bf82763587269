"""Turn untrusted Markdown into HTML that can do no harm.

Role: the only way for text of documents, models and users into a page. Three layers: the parser
takes raw HTML as text; images become their description, and links that do not lead to a known host
become their text; what comes out is cleaned against a list of allowed tags and attributes. The
content policy that the server sends is the fourth.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.deflist import deflist_plugin

from hpcllm.corpus.readers.base import anchor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from markdown_it.renderer import RendererHTML
    from markdown_it.utils import OptionsDict

TAGS = {
    *("p", "br", "hr", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "a", "button"),
    *("strong", "em", "s", "code", "pre", "figure", "figcaption", "span", "div"),
    *("table", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd"),
}
"""Tags that may remain; their content remains where others go."""
ATTRIBUTES = {
    "a": {"href", "class", "target", "id", "aria-label"},
    "button": {"type", "class"},
    "code": {"class"},
    "div": {"class", "tabindex"},
    "dt": {"id"},
    "figure": {"class"},
    "h2": {"id"},
    "h3": {"id"},
    "h4": {"id"},
    "h5": {"id"},
    "h6": {"id"},
    "ol": {"start"},
    "p": {"class"},
    "pre": {"tabindex", "role", "aria-label"},
    "span": {"class"},
    "td": {"class"},
    "th": {"class", "scope"},
}
SCHEMES = {"http", "https"}
HEADING_SHIFT = 2
"""Levels that headings of a text go down, to stand below those of the page."""

_MARK = re.compile(r"\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]")
_ANCHOR = re.compile(r"\s*\{#([\w.:-]{1,100})\}\s*$")
_INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters, those that reverse the direction of writing among them."""
_LANGUAGE = re.compile(r"[\w+#.-]{1,20}")


@dataclass(frozen=True, slots=True)
class Style:
    """How a text is to be rendered.

    Attributes:
        cite_prefix: start of the ids that ``[n]`` marks lead to; empty leaves marks as text.
        cited: numbers that lead somewhere; other marks stay text.
        cite_label: how a mark is called by a screen reader, with ``{n}``.
        known_hosts: hosts that links may lead to, in lower case.
        copy_label: text of the button of a code block; empty leaves it out.
        resolve: gives the address for a relative link, or None to leave only its text.
        has_anchors: whether ``{#anchor}`` at the end of a heading or term names it.
    """

    cite_prefix: str = ""
    cited: frozenset[int] = frozenset()
    cite_label: str = "{n}"
    known_hosts: frozenset[str] = frozenset()
    copy_label: str = ""
    resolve: Callable[[str], str | None] = lambda _: None
    has_anchors: bool = False


def render_markdown(text: str, style: Style = Style()) -> str:
    """Return safe HTML for untrusted Markdown; see :class:`Style`."""
    parser = _parser()
    tokens = parser.parse(clean_text(text))
    for token in tokens:
        if token.type == "inline":
            token.children = _inline(token.children or [], style)
    _shift_headings(tokens, style)
    _mark_lone_marks(tokens)
    html = parser.renderer.render(tokens, parser.options, {"style": style})
    return nh3.clean(
        html,
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes=SCHEMES,
        link_rel="noopener noreferrer",
        generic_attribute_prefixes=None,
    )


def render_text(text: str) -> str:
    """Return HTML that shows ``text`` as it stands."""
    return escape(clean_text(text))


def clean_text(text: str) -> str:
    """Return ``text`` without control characters, with line feeds as its only line ends."""
    return _INVISIBLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(html: str) -> str:
    """Return the same HTML on one line, which no Markdown parser reads anything into.

    Line feeds become references, which mean the same in text and in attributes.
    """
    return html.replace("\r", "").replace("\n", "&#10;")


def safe_link(target: str, known_hosts: frozenset[str]) -> str | None:
    """Return an absolute address if it is one of a known host, else None."""
    try:
        parts = urlsplit(target.strip())
        host = (parts.hostname or "").lower()
    except ValueError:
        return None
    if parts.scheme.lower() not in SCHEMES or "@" in parts.netloc or "\\" in target:
        return None
    return target.strip() if host in known_hosts else None


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 20})
    parser.enable(["table", "strikethrough"])
    parser.use(deflist_plugin)
    rules = {
        "code_inline": _render_inline_code,
        "fence": _render_code,
        "code_block": _render_code,
        "table_open": _render_table_open,
        "table_close": _render_table_close,
    }
    for name, rule in rules.items():
        parser.add_render_rule(name, rule)
    return parser


def _render_code(
    _renderer: RendererHTML,
    tokens: Sequence[Token],
    index: int,
    _options: OptionsDict,
    environment: Mapping[str, Any],
) -> str:
    token = tokens[index]
    style: Style = environment["style"]
    match = _LANGUAGE.match(token.info.strip())
    language = match.group() if match else ""
    button = (
        f'<button type="button" class="hl-copy-code">{escape(style.copy_label)}</button>'
        if style.copy_label
        else ""
    )
    return (
        f'<figure class="hl-code"><figcaption><span>{escape(language)}</span>{button}</figcaption>'
        f'<pre tabindex="0"><code>{escape(token.content)}</code></pre></figure>'
    )


def _render_inline_code(
    _renderer: RendererHTML, tokens: Sequence[Token], index: int, *_: Any
) -> str:
    """Keep words with hyphens together, since lines may break after any of them."""
    words = re.split(r"(\s+)", tokens[index].content)
    shown = [
        f'<span class="hl-word">{escape(word)}</span>' if "-" in word else escape(word)
        for word in words
    ]
    return f"<code>{''.join(shown)}</code>"


def _render_table_open(*_: Any) -> str:
    return '<div class="hl-table" tabindex="0"><table>'


def _render_table_close(*_: Any) -> str:
    return "</table></div>"


def _shift_headings(tokens: Sequence[Token], style: Style) -> None:
    for position, token in enumerate(tokens):
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + HEADING_SHIFT, 6)}"
        if token.type in ("heading_open", "dt_open") and style.has_anchors:
            anchor = _take_anchor(tokens[position + 1].children or [])
            if anchor:
                token.attrSet("id", anchor)


def _mark_lone_marks(tokens: Sequence[Token]) -> None:
    """Name paragraphs that hold marks alone: they belong to the code block above them."""
    for before, opening, inline in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if (before.type, opening.type) == ("fence", "paragraph_open"):
            shown = [
                c for c in inline.children or [] if c.type == "html_inline" or c.content.strip()
            ]
            if shown and all(child.type == "html_inline" for child in shown):
                opening.attrSet("class", "hl-marks")


def _take_anchor(children: Sequence[Token]) -> str:
    """Remove ``{#anchor}`` from the end of a heading and return it, or make one of its text."""
    texts = [child for child in children if child.type in ("text", "code_inline")]
    if not texts:
        return ""
    match = _ANCHOR.search(texts[-1].content)
    if match:
        texts[-1].content = texts[-1].content[: match.start()]
        return match.group(1)
    words = " ".join(child.content for child in texts)
    return anchor_of(words)


def _inline(children: Sequence[Token], style: Style) -> list[Token]:
    """Return inline tokens without images, with safe links alone, and with marks as links."""
    kept: list[Token] = []
    open_links: list[bool] = []
    for token in children:
        if token.type == "image":
            kept.append(_text(token.content))
        elif token.type == "link_open":
            address = _address(str(token.attrGet("href") or ""), style)
            open_links.append(address is not None)
            if address is not None:
                kept.append(_link_open(address))
        elif token.type == "link_close":
            if open_links.pop():
                kept.append(token)
        elif token.type == "text" and style.cite_prefix and not any(open_links):
            kept += _marked(token.content, style)
        else:
            kept.append(token)
    return kept


def _address(target: str, style: Style) -> str | None:
    known = safe_link(target, style.known_hosts)
    if known is not None:
        return known
    try:
        parts = urlsplit(target)
    except ValueError:
        return None
    is_relative = not parts.scheme and not parts.netloc and "\\" not in target
    return style.resolve(target) if is_relative and target else None


def _link_open(address: str) -> Token:
    attributes: dict[str, str | int | float] = {"href": address}
    if urlsplit(address).scheme:
        attributes["target"] = "_blank"
    return Token("link_open", "a", 1, attrs=attributes)


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _marked(text: str, style: Style) -> list[Token]:
    tokens: list[Token] = []
    done = 0
    for match in _MARK.finditer(text):
        numbers = [int(number) for number in match.group(1).split(",")]
        if not style.cited.issuperset(numbers):
            continue
        before = text[done : match.start()]
        # A mark stays on the line of the words that it belongs to.
        tokens.append(_text(before[:-1] + "\N{NO-BREAK SPACE}" if before[-1:] == " " else before))
        tokens += [_chip(number, style) for number in numbers]
        done = match.end()
    return [*tokens, _text(text[done:])]


def _chip(number: int, style: Style) -> Token:
    label = escape(style.cite_label.format(n=number))
    html = (
        f'<a class="hl-cite" href="#{escape(style.cite_prefix)}{number}" '
        f'aria-label="{label}">{number}</a>'
    )
    return Token("html_inline", "", 0, content=html)
