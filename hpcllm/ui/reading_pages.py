"""Pages made of records: shared answers, and pages of the index as they were read.

Role: routes without scripts of Gradio; they open at once and can be printed.
"""

from __future__ import annotations

import asyncio
import posixpath
from functools import partial
from html import escape
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from hpcllm.corpus.readers.base import anchor_of
from hpcllm.server.errors import NotFoundError
from hpcllm.ui.citations import INDEX_PAGES, page_path
from hpcllm.ui.frame import document_html
from hpcllm.ui.rendering import Style, render_markdown, render_text, safe_link
from hpcllm.ui.requests import language_of, root_of
from hpcllm.ui.texts import Texts
from hpcllm.ui.turns import SHARED, Frame, answer_turn
from hpcllm.ui.visitors import owner_of

if TYPE_CHECKING:
    from hpcllm.records import Document
    from hpcllm.server.service import AssistantService
    from hpcllm.server.store import Store
    from hpcllm.server.stored import StoredAnswer
    from hpcllm.ui.frame import Brand


def router(
    service: AssistantService,
    store: Store,
    brand: Brand,
    *,
    known_hosts: frozenset[str],
    support: str,
) -> APIRouter:
    """Return the routes of shared answers and of pages of the index."""
    routes = APIRouter(include_in_schema=False)

    @routes.get(f"/{SHARED}/{{receipt_id}}")
    async def shared_answer(request: Request, receipt_id: str) -> Response:
        texts, root = Texts(language_of(request)), root_of(request)
        try:
            answer = await asyncio.to_thread(store.answer, receipt_id)
        except NotFoundError:
            return _missing(brand, texts, root, texts("shared_missing"))
        frame = Frame(texts, root, known_hosts, support)
        owner = owner_of(request.cookies)
        votes = await asyncio.to_thread(store.feedback, receipt_id) if owner else []
        turn = answer_turn(
            answer,
            frame,
            vote=next((vote for vote in votes if vote.author == owner), None),
            are_sources_open=True,
        )
        body = _shared_body(answer, texts, root, turn)
        title = texts("shared_title")
        return HTMLResponse(document_html(brand, texts, root, title=title, body=body))

    @routes.get(f"/{INDEX_PAGES}/{{source}}/{{path:path}}")
    async def index_page(request: Request, source: str, path: str) -> Response:
        texts, root = Texts(language_of(request)), root_of(request)
        document = await asyncio.to_thread(_document, service, source, path)
        if document is None:
            return _missing(brand, texts, root, texts("page_missing"))
        style = Style(
            known_hosts=known_hosts,
            copy_label=texts("copy"),
            has_anchors=True,
            resolve=partial(_resolve, service, document, root),
        )
        html = await asyncio.to_thread(_page_body, document, texts, style)
        page = document_html(brand, texts, root, title=document.title, body=html)
        return HTMLResponse(page)

    return routes


def _missing(brand: Brand, texts: Texts, root: str, message: str) -> Response:
    link = f'<p><a class="hl-button" href="{root}chat">{escape(texts("ask_yourself"))}</a></p>'
    body = f"<h1>{escape(texts('problem'))}</h1><p>{escape(message)}</p>{link}"
    page = document_html(brand, texts, root, title=texts("problem"), body=body)
    return HTMLResponse(page, 404)


def _shared_body(answer: StoredAnswer, texts: Texts, root: str, turn: str) -> str:
    asked = texts("asked_on", date=f"{answer.created:%Y-%m-%d}")
    data = " ".join(
        f'data-{name}="{escape(value)}"'
        for name, value in {
            "copied": texts("copied"),
            "thanks": texts("thanks"),
            "failed": texts("feedback_failed"),
            "feedback": f"{root}chat/feedback",
        }.items()
    )
    return (
        f'<div id="hl-texts" hidden {data}></div>'
        f'<h1>{escape(texts("shared_title"))}</h1><p class="hl-muted">{escape(asked)}</p>{turn}'
        f'<p class="hl-row"><a class="hl-button" href="{root}chat">'
        f"{escape(texts('ask_yourself'))}</a></p>"
    )


def _document(service: AssistantService, source: str, path: str) -> Document | None:
    with service.lend() as assistant:
        return assistant.searcher.generation.document(source, path)


def _page_body(document: Document, texts: Texts, style: Style) -> str:
    source = texts("page_source", source=f"{document.source}/{document.path}")
    original = safe_link(document.url or "", style.known_hosts)
    link = (
        f' · <a href="{escape(original)}" rel="noopener noreferrer">'
        f"{escape(texts('page_original'))}</a>"
        if original
        else ""
    )
    notice = f'<p class="hl-notice">{render_text(document.notice)}</p>' if document.notice else ""
    anchor, text = _split_title(document)
    return (
        f'<p class="hl-muted">{escape(source)}{link}</p>{notice}'
        f'<article class="hl-text hl-document" lang="{escape(document.language)}">'
        f'<h1 id="{escape(anchor)}">{render_text(document.title)}</h1>'
        f"{render_markdown(text, style)}</article>"
    )


def _split_title(document: Document) -> tuple[str, str]:
    """Return the anchor of the title and the text without a first heading that repeats it."""
    first, _, rest = document.text.lstrip().partition("\n")
    heading, _, anchor = first.partition(" {#")
    if not first.startswith("# ") or heading.lstrip("# ").strip() != document.title:
        return "", document.text
    return anchor.rstrip("} ") or anchor_of(document.title), rest


def _resolve(service: AssistantService, document: Document, root: str, target: str) -> str | None:
    """Return where a page's relative link leads among the pages of the index."""
    if target.startswith("#"):
        return target
    path, _, anchor = target.partition("#")
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(document.path), path))
    if _document(service, document.source, wanted) is None:
        return None
    return root + page_path(document.source, wanted, f"#{anchor}")
