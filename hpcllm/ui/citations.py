"""Citations as numbered chips that open the quoted lines.

Role: HTML of the list of sources below an answer. The ``[n]`` marks in the text lead to it.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hpcllm.assistant.origin import TICKET_NOTICE
from hpcllm.ui.rendering import render_text, safe_link

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hpcllm.ui.texts import Texts

INDEX_PAGES = "pages"
"""Path below which pages of the index are shown."""

_TICKET = re.compile(rf"{TICKET_NOTICE}(?:, (\d{{4}}-\d\d-\d\d))?(?:\. (.*))?", re.DOTALL)


def source_prefix(receipt_id: str) -> str:
    """Return the start of the ids of an answer's sources."""
    return f"source-{receipt_id}-"


def page_path(source: str, path: str, url: str | None = None) -> str:
    """Return the path of a page of the index, relative to the server's root.

    Args:
        source: name of its source.
        path: its path.
        url: address that was cited; its anchor is taken over.
    """
    anchor = (url or "").partition("#")[2]
    fragment = f"#{quote(anchor, safe='-._~:')}" if anchor else ""
    return f"{INDEX_PAGES}/{quote(source, safe='')}/{quote(path)}{fragment}"


def place_of(citation: Mapping[str, Any]) -> list[str]:
    """Return title and heading path without repetitions, outermost first."""
    return list(dict.fromkeys([citation["title"], *citation["headings"]]))


def sources_html(
    citations: Iterable[Mapping[str, Any]],
    texts: Texts,
    *,
    receipt_id: str,
    root: str,
    known_hosts: frozenset[str],
    title: str,
    is_open: bool = False,
) -> str:
    """Return the list of an answer's sources.

    Args:
        citations: in the form of ``Citation.to_json``.
        texts: of the interface.
        receipt_id: of the answer; makes the ids unique on a page.
        root: relative or absolute path to the server's root, ending in a slash.
        known_hosts: hosts that links may lead to.
        title: heading of the list.
        is_open: whether the quoted lines are shown from the start.

    Returns:
        HTML, empty where there are no citations.
    """
    items = [_source(c, texts, receipt_id, root, known_hosts, is_open) for c in citations]
    if not items:
        return ""
    return (
        f'<section class="hl-sources"><h3>{escape(title)}</h3><ul>{"".join(items)}</ul></section>'
    )


def _source(
    citation: Mapping[str, Any],
    texts: Texts,
    receipt_id: str,
    root: str,
    known_hosts: frozenset[str],
    is_open: bool,
) -> str:
    number = int(citation["n"])
    title, *headings = place_of(citation)
    path = "".join(f"<span>{render_text(heading)}</span>" for heading in headings)
    notice = str(citation.get("notice") or "")
    badge, notice = _badges(notice, texts)
    body = _quoted(citation, texts) + _notice(notice) + _links(citation, texts, root, known_hosts)
    return (
        f'<li><details class="hl-source" id="{source_prefix(receipt_id)}{number}"'
        f"{' open' if is_open else ''}><summary>"
        f'<span class="hl-number" aria-hidden="true">{number}</span>'
        f'<span class="hl-place"><strong>{render_text(title)}</strong>'
        f'<span class="hl-headings">{path}</span> {badge}</span>'
        f'</summary><div class="hl-source-body">{body}</div></details></li>'
    )


def _quoted(citation: Mapping[str, Any], texts: Texts) -> str:
    quoted = str(citation["quote"]).strip("\n")
    if not quoted:
        return f"<p>{escape(texts('no_quote'))}</p>"
    label = escape(texts("quoted"))
    return f'<blockquote aria-label="{label}">{render_text(quoted)}</blockquote>'


def _badges(notice: str, texts: Texts) -> tuple[str, str]:
    """Return what marks a source from outside, and the part of its notice that is a warning."""
    badges = []
    ticket = _TICKET.fullmatch(notice)
    if ticket:
        date, notice = ticket.group(1), ticket.group(2) or ""
        origin = texts("from_ticket_dated", date=date) if date else texts("from_ticket")
        badges.append(f'<em class="hl-badge hl-origin">{escape(origin)}</em>')
    if notice:
        badges.append(f'<em class="hl-badge">{escape(texts("outdated"))}</em>')
    return "".join(badges), notice


def _notice(notice: str) -> str:
    return f'<p class="hl-notice">{render_text(notice)}</p>' if notice else ""


def _links(
    citation: Mapping[str, Any], texts: Texts, root: str, known_hosts: frozenset[str]
) -> str:
    here = escape(root + page_path(citation["source"], citation["path"], citation["url"]))
    links = [f'<a href="{here}" target="_blank">{escape(texts("read_here"))}</a>']
    address = safe_link(citation["url"] or "", known_hosts)
    if address:
        links.insert(
            0,
            f'<a href="{escape(address)}" target="_blank" rel="noopener noreferrer">'
            f"{escape(texts('open_section'))}</a>",
        )
    return f'<p class="hl-links">{" ".join(links)}</p>'
