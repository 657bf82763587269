"""What the pages read from a request: language and prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcllm.ui.texts import LANGUAGES, preferred_language

if TYPE_CHECKING:
    from starlette.requests import Request

LANGUAGE_COOKIE = "hpcllm_language"
"""Language that was chosen on the page; not secret."""


def language_of(request: Request) -> str:
    """Return the language that was chosen, else the one that the browser prefers."""
    chosen = request.cookies.get(LANGUAGE_COOKIE, "")
    if chosen in LANGUAGES:
        return chosen
    return preferred_language(request.headers.get("accept-language", ""))


def root_of(request: Request) -> str:
    """Return the path to the server's root as the browser sees it, ending in a slash."""
    return str(request.scope.get("root_path", "")).rstrip("/") + "/"
