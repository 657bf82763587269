"""Find the main content of an HTML page and take away what is not text of the page.

Role: the first step of :mod:`hpcllm.corpus.readers.html_page`. Places are those of the systems
that computing centres publish with: Sphinx, MkDocs, mdBook, Docusaurus, DokuWiki, MediaWiki,
Confluence, Drupal, WordPress, Org mode; then the landmarks of HTML itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

PLACES = (
    "[itemprop=articleBody]",
    "article.md-content__inner",
    "article.bd-article",
    "article[role=main]",
    "div.theme-doc-markdown",
    "#dokuwiki__content .page",
    "#mw-content-text",
    "#bodyContent",
    "#main-content.wiki-content",
    ".wiki-content",
    ".td-content",
    ".body[role=main]",
    "main .node__content",
    ".entry-content",
    "main article",
    "main",
    "[role=main]",
    "article",
    "#main-content",
    "#content",
    "div.document",
    "#main",
)
"""Selectors of the main content, the most telling first."""

LEAST_SHARE = 0.4
"""Share of the page's words outside navigation that a place has to hold to be taken."""

NOT_TEXT = "script, style, noscript, template, iframe, svg, canvas, object, embed"
NAVIGATION = (
    "nav, [role=navigation], [role=search], [role=banner], [role=contentinfo], [role=dialog], "
    ".headerlink, .md-skip, .skip-link, .skip-to-content, a.md-content__button, "
    ".wy-breadcrumbs, .breadcrumb, .breadcrumbs, .sphinxsidebar, .wy-nav-side, .bd-sidebar, "
    ".toc-drawer, .related, .rst-footer-buttons, .prev-next-area, .prev-next-footer, "
    ".md-source-file, .md-footer, .md-sidebar, .md-header, .md-tabs, .md-dialog, .md-feedback, "
    ".mw-editsection, .mw-jump-link, .printfooter, .catlinks, .navbox, #mw-navigation, "
    "#dw__toc, .secedit, .docInfo, #dokuwiki__header, #dokuwiki__aside, #dokuwiki__footer, "
    ".page-metadata, #likes-and-labels-container, #comments-section, .plugin-tabmeta-details, "
    ".sr-only, .visually-hidden, .copybtn, button.clipboard, .linenos, .lineno, .linenodiv, "
    ".theme-doc-toc-mobile, .theme-doc-footer, .pagination-nav, .hash-link, "
    "#sidebar, #menu-bar, .nav-chapters, .nav-wide-wrapper, .mobile-nav-chapters, "
    "#postamble, .site-footer, .site-header, .edit-page-link, .share-buttons"
)
"""What goes wherever it stands."""
LANDMARKS = "body > header, body > footer, body > aside, footer, header"
"""What goes outside the main content, and inside it where it holds no heading."""
CONSENT = re.compile(r"(?i)(cookie|consent|gdpr)[\w-]*(banner|bar|notice|popup|modal|consent|box)?")
CONSENT_WORDS = 150
"""A cookie notice is shorter than this; a page about cookies is not."""
WORD = re.compile(r"\w+")


def main_content(tree: LexborHTMLParser) -> LexborNode | None:
    """Return the node that holds the page's text, after removing what is no text from the page.

    Returns:
        None where the page is empty. ``tree`` is changed.
    """
    body = tree.body
    if body is None:
        return None
    _remove_consent(body)
    tree.strip_tags([name.strip() for name in NOT_TEXT.split(",")], recursive=True)
    outside = _navigation_share(body)
    for selector in PLACES:
        place = _largest(body, selector)
        if place is not None and _words(place) >= LEAST_SHARE * outside:
            _clean(place)
            return place
    _clean(body)
    return body


def page_heading(tree: LexborHTMLParser) -> str:
    """Return the page's title where a wiki keeps it outside the content, else an empty text."""
    node = tree.css_first("#firstHeading, #title-text, h1.page-title, h1.entry-title, h1.title")
    return " ".join((node.text(deep=True) or "").split()) if node is not None else ""


def _words(node: LexborNode) -> int:
    return len(WORD.findall(node.text(deep=True, separator=" ") or ""))


def _navigation_share(body: LexborNode) -> int:
    """Return how many words of the page stand outside navigation, header and footer."""
    skipped = sum(_words(node) for node in _outermost(body.css(f"{NAVIGATION}, {LANDMARKS}")))
    return max(0, _words(body) - skipped)


def _outermost(nodes: list[LexborNode]) -> list[LexborNode]:
    known = {node.mem_id for node in nodes}
    return [node for node in nodes if not _inside(node, known)]


def _inside(node: LexborNode, known: set[int]) -> bool:
    parent = node.parent
    while parent is not None:
        if parent.mem_id in known:
            return True
        parent = parent.parent
    return False


def _largest(body: LexborNode, selector: str) -> LexborNode | None:
    found = body.css(selector)
    return max(found, key=_words) if found else None


def _clean(place: LexborNode) -> None:
    for node in _outermost(place.css(NAVIGATION)):
        if node.mem_id != place.mem_id:
            node.decompose()
    for node in _outermost(place.css(LANDMARKS)):
        if node.mem_id != place.mem_id and node.css_first("h1, h2, pre") is None:
            node.decompose()
    for node in place.css("button, select, aside[id*=sidebar], aside[class*=sidebar-]"):
        if (node.attributes.get("role") or "") != "tab":
            node.decompose()


def _remove_consent(body: LexborNode) -> None:
    marked = [
        node
        for node in body.css("[id], [class]")
        if CONSENT.search(f"{node.attributes.get('id')} {node.attributes.get('class')}")
    ]
    for node in _outermost(marked):
        if (
            node.tag in ("div", "section", "aside", "dialog", "form")
            and _words(node) < CONSENT_WORDS
        ):
            node.decompose()
