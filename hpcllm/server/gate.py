"""What every request passes before and after the routes: size, host, identity, headers.

Role: plain ASGI, so that streams pass untouched and pages mounted beside the routes are guarded
too. Nothing here knows what the routes do.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from hpcllm.errors import HpcLlmError
from hpcllm.server.access import OPEN, is_loopback
from hpcllm.server.errors import AccessError
from hpcllm.server.statuses import body_of, response_for

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from hpcllm.server.access import Access, Identity

CONTENT_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'self'; "
    "frame-ancestors 'self'"
)
"""Nothing is loaded from or sent to another host, whatever a document or a model wrote."""
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
}
FREE_PATHS = frozenset({"/healthz", "/login", "/logout", "/favicon.ico"})
"""Paths that nobody has to sign in for."""
STAFF_PREFIX = "/staff"
"""Paths below are for staff alone."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def path_of(scope: Scope) -> str:
    """Return the path of a request below the prefix that a proxy serves it under."""
    path, prefix = str(scope["path"]), str(scope.get("root_path", "")).rstrip("/")
    return path[len(prefix) :] if prefix and path.startswith(f"{prefix}/") else path


@dataclass(frozen=True, slots=True)
class Headers:
    """Adds the security headers to every response."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if "cache-control" not in headers and not _is_asset(scope):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        await self.app(scope, receive, send_with_headers)


def _is_asset(scope: Scope) -> bool:
    return path_of(scope).rpartition(".")[2] in {"js", "css", "woff2", "svg", "png", "ico"}


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """Refuses request bodies above a size, announced or not.

    Attributes:
        app: what is guarded.
        limit: bytes.
    """

    app: ASGIApp
    limit: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > self.limit:
            await JSONResponse(self._body(), 413)(scope, receive, send)
            return
        read = 0

        async def receive_limited() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.limit:
                raise HTTPException(413, self._body()["error"]["message"])
            return message

        await self.app(scope, receive_limited, send)

    def _body(self) -> dict[str, dict[str, str]]:
        return body_of(
            f"the request is larger than {self.limit // 1024} KiB: shorten it, a log to the lines "
            "around the first error",
            413,
        )


@dataclass(frozen=True, slots=True)
class Gate:
    """Lets through who may pass and puts their identity into ``request.state.identity``.

    Attributes:
        app: what is guarded.
        access: knows who is calling.
        hosts: names that the server is reached by, besides loopback ones, in lower case. They are
            checked only where nobody is asked who they are: there, a foreign page whose name was
            made to point here could read everything.
    """

    app: ASGIApp
    access: Access
    hosts: frozenset[str] = frozenset()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        request = Request({**scope, "type": "http"})
        refusal = self._refuse_origin(scope, request) or await self._admit(scope, request)
        if refusal is None:
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await refusal(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _refuse_origin(self, scope: Scope, request: Request) -> Response | None:
        host = request.headers.get("host", "").lower()
        name = urlsplit(f"//{host}").hostname or ""
        if self.access.is_open and not (is_loopback(name) or name in self.hosts):
            message = f"this server does not answer to the name {name!r}"
            hint = "; its operator can list the name under hosts in [server] of hpcllm.toml"
            return JSONResponse(body_of(message + hint, 421), 421)
        origin = request.headers.get("origin", "")
        is_safe = scope.get("method", "GET") in SAFE_METHODS and scope["type"] == "http"
        if origin and not is_safe and not self._is_own(origin, host):
            message = (
                f"requests from pages of {origin} are not taken; where that is this server's own "
                "address, its proxy must pass on the Host header"
            )
            return JSONResponse(body_of(message, 403), 403)
        return None

    def _is_own(self, origin: str, host: str) -> bool:
        parts = urlsplit(origin.lower())
        return parts.netloc == host or parts.hostname in self.hosts

    async def _admit(self, scope: Scope, request: Request) -> Response | None:
        path = path_of(scope)
        scope.setdefault("state", {})["identity"] = OPEN
        if path in FREE_PATHS:
            return None
        try:
            identity = await self._identify(request)
            _refuse_non_staff(path, identity, self.access)
        except AccessError as exc:
            if _wants_page(scope, request) and self.access.has_password:
                return _to_login(scope, path)
            return response_for(exc)
        except HpcLlmError as exc:
            return response_for(exc)
        scope["state"]["identity"] = identity
        return None

    async def _identify(self, request: Request) -> Identity:
        address = request.client.host if request.client else ""
        if self.access.needs_hash(request.headers):
            return await asyncio.to_thread(self.access.identify, request.headers, address)
        return self.access.identify(request.headers, address)


def _refuse_non_staff(path: str, identity: Identity, access: Access) -> None:
    if path != STAFF_PREFIX and not path.startswith(f"{STAFF_PREFIX}/"):
        return
    if identity.role != "staff":
        how = (
            "sign in with the staff password"
            if access.has_staff_password
            else "its operator sets a staff password with: hpcllm keys password --staff"
        )
        raise AccessError(f"this page is for staff: {how}", is_known=True)


def _wants_page(scope: Scope, request: Request) -> bool:
    return scope.get("method") == "GET" and "text/html" in request.headers.get("accept", "")


def _to_login(scope: Scope, path: str) -> Response:
    prefix = str(scope.get("root_path", "")).rstrip("/")
    return RedirectResponse(f"{prefix}/login?next={quote(path, safe='/')}", 303)
