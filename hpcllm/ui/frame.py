"""The frame around what pages show: header, start screen, whole pages without Gradio.

Role: HTML only; knows the theme and the texts, no records.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from hpcllm.ui.rendering import one_line
from hpcllm.ui.texts import HTML_LANGUAGES, Texts
from hpcllm.ui.turns import language_links

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hpcllm.server.stored import Conversation
    from hpcllm.ui.theme import Starter, Theme

STATIC = "ui"
"""Path below which style sheet, script and logo are served."""
EARLIER = 12
"""Earlier chats that are listed."""
STARTERS = 6
"""Most starter questions that are shown."""


@dataclass(frozen=True, slots=True)
class Brand:
    """What pages show of the site.

    Attributes:
        name: the assistant's name.
        theme: colours, help link, notice.
        has_logo: whether there is a logo.
        version: changes with the static files, so that browsers fetch new ones.
    """

    name: str
    theme: Theme
    has_logo: bool
    version: str


def header_html(brand: Brand, texts: Texts, root: str, *, inner: str = "") -> str:
    """Return the header of a page.

    Args:
        brand: of the site.
        texts: of the interface.
        root: path to the server's root, ending in a slash.
        inner: further controls.
    """
    logo = f'<img src="{root}{STATIC}/logo?{brand.version}" alt="" width="34" height="34">'
    help_link = (
        f'<a class="hl-quiet" href="{escape(brand.theme.help_url)}" target="_blank" '
        f'rel="noopener noreferrer">{escape(texts("help"))}</a>'
        if brand.theme.help_url
        else ""
    )
    notice = brand.theme.notice.pt if texts.language == "pt" else brand.theme.notice.en
    theme_name = escape(texts("theme"))
    kind = "hl-header hl-chat-header" if inner else "hl-header"
    return (
        f'<div class="{kind}"><a class="hl-brand" href="{root}chat/{texts.language}/">'
        f"{logo if brand.has_logo else ''}<strong>{escape(brand.name)}</strong></a>"
        f'<div class="hl-tools">{inner}{help_link}'
        f'<button type="button" class="hl-quiet hl-theme" data-do="theme" title="{theme_name}" '
        f'aria-label="{theme_name}"><span aria-hidden="true">◐</span></button></div></div>'
        + (f'<p class="hl-notice hl-today" role="note">{escape(notice)}</p>' if notice else "")
    )


def chat_controls(texts: Texts, clusters: Sequence[str], default: str | None) -> str:
    """Return the controls of the chat page's header."""
    options = "".join(
        f'<option value="{escape(name)}"{" selected" if name == default else ""}>{escape(name)}'
        "</option>"
        for name in clusters
    )
    label = escape(texts("cluster"))
    cluster = (
        f'<label class="hl-cluster"><span>{label}</span><select aria-label="{label}">'
        f'<option value="">{escape(texts("cluster_all"))}</option>{options}</select></label>'
        if clusters
        else ""
    )
    new = escape(texts("new_chat"))
    return (
        f'<a class="hl-button hl-new" href="./" data-do="new">{new}</a>'
        f'<details class="hl-menu"><summary class="hl-quiet">{escape(texts("earlier"))}</summary>'
        f'<nav aria-label="{escape(texts("earlier"))}" class="hl-earlier-list"></nav></details>'
        f"{cluster}{language_links(texts.language)}"
    )


def scopes_html(scopes: Iterable[str], texts: Texts) -> str:
    """Return a box to tick for all that an index holds besides documentation."""
    boxes = "".join(
        f'<label class="hl-scope"><input type="checkbox" value="{escape(scope)}"> '
        f"{escape(texts.find(f'scope.{scope}', scope))}</label>"
        for scope in scopes
        if not any(character.isspace() for character in scope)
    )
    return f'<span role="group" aria-label="{escape(texts("scopes"))}">{boxes}</span>' * bool(boxes)


def earlier_html(conversations: Iterable[Conversation], texts: Texts, current: str | None) -> str:
    """Return the list of earlier chats, for the menu in the header."""
    links = [
        f'<li><a href="?c={escape(c.id)}"{" aria-current=true" if c.id == current else ""}>'
        f"{escape(c.title)}</a></li>"
        for c in conversations
    ]
    inner = f"<ul>{''.join(links)}</ul>" if links else f"<p>{escape(texts('earlier_none'))}</p>"
    return one_line(f'<div class="hl-earlier">{inner}</div>')


def start_html(brand: Brand, texts: Texts, starters: Iterable[Starter]) -> str:
    """Return what an empty conversation shows."""
    own = [starter for starter in starters if starter.language == texts.language][:STARTERS]
    items = "".join(
        f'<li><button type="button" data-do="start" data-question="{escape(starter.question)}">'
        + (f"<strong>{escape(starter.title)}</strong> " if starter.title else "")
        + f"<span>{escape(starter.question)}</span></button></li>"
        for starter in own
    )
    listed = f'<h2>{escape(texts("starters"))}</h2><ul class="hl-starters">{items}</ul>'
    return one_line(
        f'<div class="hl-start"><h1>{escape(texts("greeting"))}</h1>'
        f"<p>{escape(texts('intro'))}</p>{listed if own else ''}</div>"
    )


def head_html(brand: Brand, root: str) -> str:
    """Return the links to style sheets and script, for the head of a page."""
    files = f"{root}{STATIC}"
    return (
        f'<link rel="stylesheet" href="{files}/page.css?{brand.version}">'
        f'<link rel="stylesheet" href="{files}/theme.css?{brand.version}">'
        f'<script src="{files}/page.js?{brand.version}" defer></script>'
    )


def early_html(brand: Brand, root: str) -> str:
    """Return the script of the chat page, which must come before Gradio's own."""
    return f'<script src="{root}{STATIC}/frames.js?{brand.version}"></script>'


def document_html(brand: Brand, texts: Texts, root: str, *, title: str, body: str) -> str:
    """Return a whole page.

    Args:
        brand: of the site.
        texts: of the interface.
        root: path to the server's root, ending in a slash.
        title: of the page.
        body: its main part.
    """
    return (
        f'<!doctype html>\n<html lang="{HTML_LANGUAGES[texts.language]}">\n<head>\n'
        '<meta charset="utf-8">\n<meta name="robots" content="noindex">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)} – {escape(brand.name)}</title>\n"
        f'<link rel="icon" href="{root}{STATIC}/logo?{brand.version}">\n'
        f"{head_html(brand, root)}\n</head>\n"
        f'<body class="hl-page">\n<header>{header_html(brand, texts, root)}</header>\n'
        f'<main class="hl-main">\n{body}\n</main>\n</body>\n</html>\n'
    )
