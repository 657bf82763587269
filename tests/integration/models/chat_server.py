"""A chat server on loopback, standard library only, that follows a plan of faults."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Respond = Callable[["Handler", dict[str, Any]], None]


@dataclass
class Plan:
    """What the server does with each request: the next of ``steps``, then ``after`` for ever."""

    steps: list[Respond] = field(default_factory=list)
    after: Respond | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    broken_pipes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, request: dict[str, Any], headers: dict[str, str]) -> Respond:
        with self.lock:
            self.requests.append(request)
            self.headers.append(headers)
            step = self.steps.pop(0) if self.steps else self.after
        assert step is not None, "more requests came than were planned"
        return step


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    plan: Plan

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.close_connection = True
        try:
            self.plan.next({"path": self.path, **body}, dict(self.headers))(self, body)
        except (BrokenPipeError, ConnectionResetError):
            self.plan.broken_pipes += 1

    def log_message(self, *_: Any) -> None:
        pass

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def raw(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def event(self, data: Any) -> None:
        self.raw(b"data: " + json.dumps(data).encode() + b"\n\n")

    def piece(self, text: str) -> None:
        self.event({"choices": [{"delta": {"content": text}, "finish_reason": None}]})

    def end_stream(self, reason: str, usage: dict[str, Any] | None = None) -> None:
        self.event({"choices": [{"delta": {}, "finish_reason": reason}]})
        if usage:
            self.event({"choices": [], "usage": usage})
        self.raw(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def hang_up(self) -> None:
        """Close without the end of the chunked body."""
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)


def say(text: str, *, delay_s: float = 0.0, context: int = 4096) -> Respond:
    """Answer ``text`` a word at a time, keeping max_tokens, stop texts and the context."""

    def respond(handler: Handler, request: dict[str, Any]) -> None:
        prompt = sum(len(m["content"].split()) for m in request["messages"])
        if prompt > context:
            message = f"maximum context length is {context} tokens, got {prompt}"
            return refuse(400, {"error": {"message": message}})(handler, request)
        handler.begin_stream()
        handler.event({"choices": [{"delta": {"role": "assistant", "content": None}}]})
        answer = text
        for stop in request.get("stop", []):
            answer = answer.partition(stop)[0]
        words = answer.split(" ")
        limit = request["max_tokens"]
        for number, word in enumerate(words[:limit]):
            time.sleep(delay_s)
            handler.piece(word if number == 0 else f" {word}")
        usage = {"prompt_tokens": prompt, "completion_tokens": min(limit, len(words))}
        handler.end_stream("length" if len(words) > limit else "stop", usage)
        return None

    return respond


def refuse(status: int, body: Any = None, **headers: str) -> Respond:
    """Answer with a status and a JSON body."""

    def respond(handler: Handler, _: dict[str, Any]) -> None:
        data = json.dumps(body if body is not None else {"error": {"message": "no"}}).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return respond


@contextmanager
def serve(plan: Plan) -> Iterator[str]:
    """Run the server; gives the base URL."""
    handler = type("PlannedHandler", (Handler,), {"plan": plan})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
