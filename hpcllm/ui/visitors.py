"""Who holds a conversation: a browser, known by a cookie that nobody can guess.

Role: gives every browser a secret of its own and turns it into the owner's name that the store
keeps. Whoever reads the database cannot make the cookie from it.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders
from starlette.requests import Request

from hpcllm.server.gate import path_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "hpcllm_browser"
COOKIE_DAYS = 180
"""Days after which a browser that never came back is forgotten by itself."""
_SECRET = re.compile(r"[0-9a-f]{64}")


def owner_of(cookies: Mapping[str, str], tab: str = "") -> str:
    """Return the owner's name for a request.

    Args:
        cookies: of the request.
        tab: secret of one open page, taken where the browser keeps no cookies; the chats of such
            a browser end with the page.

    Returns:
        ``browser:`` or ``tab:`` with 32 hex digits; empty where nothing is known.
    """
    secret = cookies.get(COOKIE, "")
    if _SECRET.fullmatch(secret):
        return f"browser:{_digest(secret)}"
    return f"tab:{_digest(tab)}" if tab else ""


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Visitors:
    """Gives a cookie to browsers that have none when they open a page below ``prefix``.

    Attributes:
        app: what is served.
        prefix: path of the pages.
    """

    app: ASGIApp
    prefix: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if not self._needs_cookie(scope):
            await self.app(scope, receive, send)
            return
        header = _cookie_header(scope)

        async def send_with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).append("Set-Cookie", header)
            await send(message)

        await self.app(scope, receive, send_with_cookie)

    def _needs_cookie(self, scope: Scope) -> bool:
        if scope["type"] != "http" or scope["method"] != "GET":
            return False
        if not path_of(scope).startswith(self.prefix) or "/assets/" in scope["path"]:
            return False
        return not owner_of(Request(scope).cookies)


def _cookie_header(scope: Scope) -> str:
    path = str(scope.get("root_path", "")).rstrip("/") or "/"
    parts = [
        f"{COOKIE}={secrets.token_hex(32)}",
        f"Max-Age={COOKIE_DAYS * 86400}",
        f"Path={path}",
        "HttpOnly",
        "SameSite=Lax",
    ]
    return "; ".join([*parts, "Secure"] if scope.get("scheme") == "https" else parts)
