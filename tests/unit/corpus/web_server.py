"""A website on loopback that counts what it is asked for and misbehaves on demand."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Handler = Callable[[BaseHTTPRequestHandler], None]
Answer = str | bytes | tuple[int, Mapping[str, str], bytes] | Handler


class Website:
    """Pages by path; a text is an HTML page with an ETag.

    Attributes:
        pages: what to answer, by path with query.
        asked: requests by path.
        sent: bodies of pages sent by path, not counting "304 Not Modified".
    """

    def __init__(self, pages: Mapping[str, Answer]) -> None:
        self.pages: dict[str, Answer] = dict(pages)
        self.asked: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.address = ""
        self.delay_s = 0.0
        self.agents: set[str] = set()

    def reset(self) -> None:
        """Count from zero."""
        self.asked.clear()
        self.sent.clear()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        path = request.path
        self.asked[path] += 1
        self.agents.add(request.headers.get("User-Agent", ""))
        if self.delay_s:
            time.sleep(self.delay_s)
        found = self.pages.get(path)
        if found is None:
            reply(request, 404, {}, b"not here")
        elif callable(found):
            found(request)
        elif isinstance(found, tuple):
            self.sent[path] += 1
            reply(request, *found)
        else:
            self._page(request, found.encode() if isinstance(found, str) else found)

    def _page(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        etag = f'"{hash(body)}"'
        if request.headers.get("If-None-Match") == etag:
            reply(request, 304, {"ETag": etag}, b"")
            return
        self.sent[request.path] += 1
        reply(request, 200, {"Content-Type": "text/html; charset=utf-8", "ETag": etag}, body)


def reply(
    request: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    """Send one whole answer."""
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    if "Content-Length" not in headers and status != 304:
        request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def page(title: str, *links: str, text: str = "Some text about batch jobs.", head: str = "") -> str:
    """Return an HTML page."""
    listed = "".join(f'<a href="{link}">{link}</a> ' for link in links)
    return (
        f"<!doctype html><html><head><title>{title}</title>{head}</head><body><main>"
        f"<h1>{title}</h1><p>{text}</p><p>{listed}</p></main></body></html>"
    )


@contextmanager
def served(pages: Mapping[str, Answer]) -> Iterator[Website]:
    """Serve a website while the block runs."""
    site = Website(pages)

    class _Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            try:
                site.answer(self)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    site.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
