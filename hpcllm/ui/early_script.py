"""Put a script before all others of the chat page.

Role: Gradio adds what it is given for a page's head once its own scripts have begun; what has to
come before them is written into the page as it passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders

from hpcllm.server.gate import path_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEAD = b"<head>"


@dataclass(frozen=True, slots=True)
class EarlyScript:
    """Adds HTML to the beginning of the head of pages below ``prefix``.

    Attributes:
        app: what is served.
        prefix: path of the pages.
        html: what is added.
    """

    app: ASGIApp
    prefix: str
    html: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or not self._is_page(path_of(scope)):
            await self.app(scope, receive, send)
            return
        start: Message | None = None
        added = self.html.encode()

        async def send_with_html(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start is not None:
                body, first = message.get("body", b""), start
                start = None
                if _is_html(first) and HEAD in body:
                    message = {**message, "body": body.replace(HEAD, HEAD + added, 1)}
                    _lengthen(first, len(added))
                await send(first)
            await send(message)

        await self.app(scope, receive, send_with_html)

    def _is_page(self, path: str) -> bool:
        return path.startswith(self.prefix) and path.endswith("/") and path != self.prefix


def _is_html(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    is_plain = "content-encoding" not in headers
    return is_plain and headers.get("content-type", "").startswith("text/html")


def _lengthen(start: Message, by: int) -> None:
    headers = MutableHeaders(scope=start)
    if "content-length" in headers:
        headers["content-length"] = str(int(headers["content-length"]) + by)
