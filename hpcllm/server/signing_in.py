"""The page that asks for the shared password.

Role: plain HTML without scripts, in English and Portuguese; the only page of this package that
works without the web interface.
"""

from __future__ import annotations

import asyncio
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from hpcllm.errors import HpcLlmError
from hpcllm.server.access import COOKIE, SESSION_S
from hpcllm.server.statuses import describe

if TYPE_CHECKING:
    from hpcllm.server.access import Access

WORDS = {
    "en": {"title": "Sign in", "label": "Password", "button": "Sign in"},
    "pt": {"title": "Entrar", "label": "Senha", "button": "Entrar"},
}
WRONG = {"en": "The password is wrong.", "pt": "A senha está incorreta."}

PAGE = """<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} – {name}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 1rem/1.5 system-ui, sans-serif; display: grid; place-items: center;
  min-height: 100vh; margin: 0; background: Canvas; color: CanvasText; }}
form {{ width: min(22rem, 90vw); display: grid; gap: .75rem; }}
h1 {{ font-size: 1.4rem; margin: 0; }}
input, button {{ font: inherit; padding: .6rem .75rem; border-radius: .4rem; }}
input {{ border: 1px solid GrayText; background: Field; color: FieldText; }}
button {{ border: 0; background: #1d4ed8; color: #fff; cursor: pointer; }}
input:focus-visible, button:focus-visible {{ outline: 3px solid #93c5fd; outline-offset: 2px; }}
.error {{ margin: 0; color: #b91c1c; font-weight: 600; }}
@media (prefers-color-scheme: dark) {{ .error {{ color: #fca5a5; }} }}
</style>
</head>
<body>
<main>
<form method="post" action="{action}">
<h1>{name}</h1>
{error}
<label for="password">{label}</label>
<input id="password" name="password" type="password" autocomplete="current-password" required
  autofocus{described}>
<input type="hidden" name="next" value="{next}">
<button type="submit">{button}</button>
</form>
</main>
</body>
</html>
"""


def router(access: Access, site_name: str) -> APIRouter:
    """Return the routes of signing in and out; they are no part of the described interface."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/login")
    async def login_page(request: Request) -> Response:
        target = request.query_params.get("next", "/")
        return HTMLResponse(_page(request, site_name, target))

    @routes.post("/login")
    async def sign_in(request: Request) -> Response:
        fields = parse_qs((await request.body()).decode("utf-8", "replace"))
        target = fields.get("next", ["/"])[0]
        address = request.client.host if request.client else ""
        try:
            password = fields.get("password", [""])[0]
            cookie = await asyncio.to_thread(access.sign_in, password, address)
        except HpcLlmError as exc:
            status, body, headers = describe(exc)
            message = _words(WRONG, request) if status == 401 else body["error"]["message"]
            page = _page(request, site_name, target, message)
            headers.pop("WWW-Authenticate", None)
            return HTMLResponse(page, status, headers=headers)
        response = RedirectResponse(_prefix(request) + _inner(target), 303)
        response.set_cookie(
            COOKIE,
            cookie,
            max_age=SESSION_S,
            path=_prefix(request) or "/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="lax",
        )
        return response

    @routes.post("/logout")
    async def sign_out(request: Request) -> Response:
        response = RedirectResponse(f"{_prefix(request)}/login", 303)
        response.delete_cookie(COOKIE, path=_prefix(request) or "/")
        return response

    return routes


def _page(request: Request, name: str, target: str, error: str = "") -> str:
    alert = f'<p class="error" id="error" role="alert">{escape(error)}</p>' if error else ""
    return PAGE.format(
        language=_language(request),
        name=escape(name),
        action=escape(f"{_prefix(request)}/login"),
        next=escape(_inner(target)),
        error=alert,
        described=' aria-describedby="error" aria-invalid="true"' if error else "",
        **WORDS[_language(request)],
    )


def _language(request: Request) -> str:
    """Return the first language of the browser that the page speaks."""
    wanted = request.headers.get("accept-language", "").split(",")
    codes = [part.split(";")[0].strip().lower().split("-")[0] for part in wanted]
    return next((code for code in codes if code in WORDS), "en")


def _words(texts: dict[str, str], request: Request) -> str:
    return texts[_language(request)]


def _prefix(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/")


def _inner(target: str) -> str:
    """Return a path on this server: never one that a browser takes for another host's."""
    is_path = target.startswith("/") and not target.startswith("//")
    return target if is_path and "\\" not in target and target.isprintable() else "/"
