"""Mount all pages on the server: chat, shared answers, pages of the index, staff.

Role: the one door for ``hpcllm serve``. What the pages need of a workspace is read here, once.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from hpcllm.corpus.sources import load_sources
from hpcllm.errors import ConfigError
from hpcllm.server.schemas import FeedbackIn
from hpcllm.ui import reading_pages, staff_page
from hpcllm.ui.chat_page import mount_chat
from hpcllm.ui.early_script import EarlyScript
from hpcllm.ui.frame import STATIC, Brand, early_html, start_html
from hpcllm.ui.requests import language_of, root_of
from hpcllm.ui.talking import Talker
from hpcllm.ui.texts import LANGUAGES, Texts
from hpcllm.ui.theme import load_starters, load_theme, logo_of, variables
from hpcllm.ui.turns import Frame
from hpcllm.ui.visitors import Visitors, owner_of

if TYPE_CHECKING:
    from hpcllm.server.service import AssistantService
    from hpcllm.server.store import Store
    from hpcllm.ui.theme import Theme
    from hpcllm.workspace import Workspace

logger = logging.getLogger(__name__)

STATIC_DIR = Path(__file__).parent / "static"
STATIC_TYPES = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "frames.js": "text/javascript",
}
ASSET_AGE_S = 30 * 24 * 3600
"""Seconds that browsers keep static files; their addresses change with their content."""


def mount_pages(
    app: FastAPI, service: AssistantService, store: Store, workspace: Workspace
) -> FastAPI:
    """Add the pages to a server.

    Args:
        app: what :func:`hpcllm.server.app.create_app` returned; its guards stand before the pages.
        service: answers.
        store: holds conversations and feedback.
        workspace: whose branding, clusters and sources are used.

    Returns:
        ``app``.

    Raises:
        ConfigError: theme or starter questions are wrong.
        MissingExtraError: Gradio is not installed.
    """
    settings = workspace.settings
    theme = load_theme(workspace.ui_dir)
    static = _static_files(workspace.ui_dir, theme)
    brand = Brand(
        name=theme.name or settings.site.name,
        theme=theme,
        has_logo="logo" in static,
        version=_version(static),
    )
    known_hosts = _known_hosts(workspace, theme)
    starters = load_starters(workspace.ui_dir)
    app.include_router(_router(store, static, brand))
    app.include_router(
        reading_pages.router(
            service, store, brand, known_hosts=known_hosts, support=settings.site.support
        )
    )
    app.include_router(
        staff_page.router(
            service,
            store,
            brand,
            index_dir=workspace.index_dir,
            proposals_dir=workspace.var_dir / "proposals",
        )
    )
    app.add_middleware(Visitors, prefix="/chat/")
    app.add_middleware(EarlyScript, prefix="/chat/", html=early_html(brand, "../../"))
    options = service.assistant.options
    for language in LANGUAGES:
        texts = Texts(language)
        talker = Talker(
            service,
            store,
            frame=Frame(texts, "../../", known_hosts, settings.site.support),
            clusters=options.clusters,
            start=start_html(brand, texts, starters),
        )
        mount_chat(app, talker, brand, options.cluster)
    return app


def _router(store: Store, static: dict[str, tuple[bytes, str]], brand: Brand) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    @routes.get("/chat")
    @routes.get("/chat/")
    async def to_chat(request: Request) -> Response:
        return RedirectResponse(f"{root_of(request)}chat/{language_of(request)}/", 307)

    @routes.get(f"/{STATIC}/{{name}}")
    async def static_file(name: str) -> Response:
        if name not in static:
            return Response(status_code=404)
        content, media_type = static[name]
        headers = {"Cache-Control": f"public, max-age={ASSET_AGE_S}, immutable"}
        return Response(content, media_type=media_type, headers=headers)

    @routes.get("/favicon.ico")
    async def favicon() -> Response:
        content, media_type = static.get("logo", (b"", "image/png"))
        return Response(content, media_type=media_type, status_code=200 if content else 204)

    @routes.get("/manifest.json")
    async def manifest() -> Response:
        return JSONResponse({"name": brand.name, "start_url": "chat", "display": "browser"})

    @routes.post("/chat/feedback")
    async def feedback(request: Request, body: FeedbackIn) -> Response:
        owner = owner_of(request.cookies)
        await asyncio.to_thread(
            store.give_feedback,
            body.receipt_id,
            body.rating,
            reason=body.reason,
            comment=body.comment,
            author=owner,
        )
        return JSONResponse({"recorded": True})

    return routes


def _static_files(folder: Path, theme: Theme) -> dict[str, tuple[bytes, str]]:
    """Return content and media type by name."""
    files = {
        name: ((STATIC_DIR / name).read_bytes(), media) for name, media in STATIC_TYPES.items()
    }
    files["theme.css"] = (variables(theme).encode(), "text/css")
    logo = logo_of(folder, theme)
    if logo is not None:
        files["logo"] = logo
    return files


def _version(static: dict[str, tuple[bytes, str]]) -> str:
    digest = hashlib.sha256()
    for content, _ in static.values():
        digest.update(content)
    return digest.hexdigest()[:12]


def _known_hosts(workspace: Workspace, theme: Theme) -> frozenset[str]:
    """Return the hosts that links in answers may lead to: those of the sources and of help."""
    addresses = [theme.help_url, workspace.settings.site.support]
    try:
        addresses += [source.base_url or "" for source in load_sources(workspace.sources_file)]
    except ConfigError as exc:
        logger.warning("citations will have no links to the original pages: %s", exc)
    hosts = (urlsplit(address).hostname for address in addresses if "://" in address)
    return frozenset(host.lower() for host in hosts if host)
