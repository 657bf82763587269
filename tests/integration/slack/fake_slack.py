"""A strict stand-in for Slack on loopback: Web API, Socket Mode, a sender of signed requests.

It keeps channels, threads and messages as Slack does, refuses what Slack refuses (unknown methods
and arguments, limits, channels that the bot is not in), records every call, and can be told to
fail, to delay, to hang, to cut connections.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx
import uvicorn
from fastapi import FastAPI, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse, PlainTextResponse, Response

TEAM, BOT_USER, BOT, APP = "T1", "U0BOT", "B0BOT", "A1"
BOT_TOKEN, APP_TOKEN, SECRET = "xoxb-fake", "xapp-fake", "shhh"

_MESSAGE = {"channel", "text", "blocks", "metadata", "parse", "link_names"}
ARGUMENTS = {
    "auth.test": set(),
    "apps.connections.open": set(),
    "chat.postMessage": _MESSAGE | {"thread_ts", "unfurl_links", "unfurl_media"},
    "chat.update": _MESSAGE | {"ts"},
    "chat.delete": {"channel", "ts"},
    "chat.postEphemeral": {"channel", "user", "text", "thread_ts", "parse"},
    "chat.getPermalink": {"channel", "message_ts"},
    "conversations.replies": {"channel", "ts", "limit", "cursor", "include_all_metadata"},
    "conversations.history": {"channel", "limit", "cursor", "include_all_metadata"},
    "views.open": {"trigger_id", "view"},
}
"""Methods with the arguments that they take."""
READING = {"conversations.replies", "conversations.history", "chat.getPermalink"}
"""Methods that do not take JSON."""


@dataclass
class Call:
    method: str
    args: dict[str, Any]
    at: float


@dataclass
class FakeSlack:
    """The server and what it knows; use as a context manager.

    Attributes:
        calls: every call in order, refused ones included.
        messages: by channel, what stands there, oldest first.
        members: channels that the bot is in.
        fail: by method, what to answer to the next calls: an error's name, ``429:SECONDS``,
            ``500``, ``text`` (a proxy's error page), ``cut`` (the connection breaks), ``lost``
            (done, but the answer never comes) or ``hang`` (neither).
        acks: Socket Mode acknowledgements.
        responses: what was sent to response URLs.
    """

    calls: list[Call] = field(default_factory=list)
    messages: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    members: set[str] = field(default_factory=lambda: {"C1", "C2", "CSTAFF", "D1"})
    fail: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    acks: list[dict[str, Any]] = field(default_factory=list)
    responses: list[dict[str, Any]] = field(default_factory=list)
    sockets: list[WebSocket] = field(default_factory=list)
    page_size: int = 200

    def __post_init__(self) -> None:
        self._clock = itertools.count(1)
        self._envelopes = itertools.count(1)
        self._server = uvicorn.Server(
            uvicorn.Config(
                _app(self), port=0, log_level="error", lifespan="off", ws="websockets-sansio"
            )
        )
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self.loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> FakeSlack:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(10)

    @property
    def port(self) -> int:
        port: int = self._server.servers[0].sockets[0].getsockname()[1]
        return port

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/"

    def new_ts(self) -> str:
        return f"1700000000.{next(self._clock):06d}"

    # What is looked at in tests

    def called(self, method: str) -> list[dict[str, Any]]:
        return [call.args for call in self.calls if call.method == method]

    def own(self, channel: str, thread: str | None = None) -> list[dict[str, Any]]:
        """Return the bot's messages in a channel, or in one thread of it."""
        return [
            message
            for message in self.messages[channel]
            if message["user"] == BOT_USER and thread in (None, message.get("thread_ts"))
        ]

    # What people do

    def says(
        self, text: str, *, channel: str = "C1", thread: str = "", user: str = "U1", **more: Any
    ) -> dict[str, Any]:
        """Let somebody write a message; return it."""
        message = {"type": "message", "user": user, "text": text, "ts": self.new_ts(), **more}
        if thread:
            message["thread_ts"] = thread
        self.messages[channel].append(message)
        return message

    # What the server does

    def handle(self, method: str, args: dict[str, Any]) -> dict[str, Any]:
        handler = {
            "auth.test": self._auth_test,
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "chat.delete": self._delete,
            "chat.postEphemeral": self._ephemeral,
            "conversations.replies": self._read,
            "conversations.history": self._read,
            "views.open": self._view,
        }.get(method)
        if method == "apps.connections.open":
            return {"ok": True, "url": f"ws://127.0.0.1:{self.port}/link?ticket=x"}
        if method == "chat.getPermalink":
            return {
                "ok": True,
                "permalink": f"https://x.slack.com/{args['channel']}/{args['message_ts']}",
            }
        assert handler is not None
        return handler(args)

    def _auth_test(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"ok": True, "team_id": TEAM, "user_id": BOT_USER, "bot_id": BOT, "user": "helper"}

    def _post(self, args: dict[str, Any]) -> dict[str, Any]:
        problem = self._channel_problem(args) or message_problem(args)
        thread = args.get("thread_ts")
        if thread and thread not in {m["ts"] for m in self.messages[args["channel"]]}:
            problem = problem or "thread_not_found"
        if problem:
            return {"ok": False, "error": problem}
        message = {
            "type": "message",
            "user": BOT_USER,
            "bot_id": BOT,
            "ts": self.new_ts(),
            **_kept(args),
        }
        self.messages[args["channel"]].append(message)
        return {"ok": True, "channel": args["channel"], "ts": message["ts"], "message": message}

    def _update(self, args: dict[str, Any]) -> dict[str, Any]:
        problem = self._channel_problem(args) or message_problem(args)
        found = self._own_message(args)
        if problem or found is None:
            return {"ok": False, "error": problem or "message_not_found"}
        found.update(_kept(args))
        return {"ok": True, "channel": args["channel"], "ts": args["ts"], "text": args["text"]}

    def _delete(self, args: dict[str, Any]) -> dict[str, Any]:
        found = self._own_message(args)
        if found is None:
            return {"ok": False, "error": "message_not_found"}
        self.messages[args["channel"]].remove(found)
        return {"ok": True}

    def _own_message(self, args: dict[str, Any]) -> dict[str, Any] | None:
        return next((m for m in self.own(args["channel"]) if m["ts"] == args["ts"]), None)

    def _ephemeral(self, args: dict[str, Any]) -> dict[str, Any]:
        problem = self._channel_problem(args)
        return {"ok": False, "error": problem} if problem else {"ok": True, "message_ts": "1.1"}

    def _view(self, args: dict[str, Any]) -> dict[str, Any]:
        view = args["view"]
        if view["type"] != "modal" or len(view["title"]["text"]) > 24:
            return {"ok": False, "error": "invalid_arguments"}
        return {"ok": True, "view": view}

    def _read(self, args: dict[str, Any]) -> dict[str, Any]:
        problem = self._channel_problem(args)
        if problem:
            return {"ok": False, "error": problem}
        stand = self.messages[args["channel"]]
        if "ts" in args:
            shown = [m for m in stand if args["ts"] in (m["ts"], m.get("thread_ts"))]
        else:
            shown = [m for m in reversed(stand) if m.get("thread_ts") in (None, m["ts"])]
        if args.get("include_all_metadata") not in ("true", "1"):
            shown = [{k: v for k, v in m.items() if k != "metadata"} for m in shown]
        start = int(args.get("cursor") or 0)
        end = start + min(int(args.get("limit", 100)), self.page_size)
        cursor = str(end) if end < len(shown) else ""
        return {
            "ok": True,
            "messages": shown[start:end],
            "has_more": bool(cursor),
            "response_metadata": {"next_cursor": cursor},
        }

    def _channel_problem(self, args: dict[str, Any]) -> str:
        channel = str(args.get("channel") or "")
        if channel.startswith("X") or not channel:
            return "channel_not_found"
        return "" if channel in self.members else "not_in_channel"

    # Socket Mode

    def push(self, payload: dict[str, Any], kind: str = "events_api", **more: Any) -> str:
        """Send an envelope on the newest connection; return its id."""
        envelope = {
            "type": kind,
            "envelope_id": f"e{next(self._envelopes)}",
            "accepts_response_payload": kind == "slash_commands",
            "payload": payload,
            **more,
        }
        self._send(envelope)
        return str(envelope["envelope_id"])

    def disconnect(self) -> None:
        """Ask the newest connection to come again, as Slack does every few hours."""
        self._send({"type": "disconnect", "reason": "refresh_requested"})

    def _send(self, envelope: dict[str, Any]) -> None:
        assert self.loop is not None
        sending = self.sockets[-1].send_json(envelope)
        asyncio.run_coroutine_threadsafe(sending, self.loop).result(5)


def _kept(args: dict[str, Any]) -> dict[str, Any]:
    return {k: args[k] for k in ("text", "blocks", "metadata", "thread_ts") if k in args}


def message_problem(args: dict[str, Any]) -> str:
    """Return Slack's name for what is wrong with a message, or empty."""
    text, blocks = args.get("text") or "", args.get("blocks") or []
    if not text and not blocks:
        return "no_text"
    if len(text) > 40_000:
        return "msg_too_long"
    if len(json.dumps(blocks)) > 13_000:
        return "msg_blocks_too_long"
    if len(blocks) > 50 or any(not _is_valid(block) for block in blocks):
        return "invalid_blocks"
    metadata = args.get("metadata")
    if metadata is not None and set(metadata) != {"event_type", "event_payload"}:
        return "invalid_metadata_format"
    return ""


def _is_valid(block: dict[str, Any]) -> bool:
    match block["type"]:
        case "section":
            return 0 < len(block["text"]["text"]) <= 3000
        case "context":
            elements = block["elements"]
            return 0 < len(elements) <= 10 and all(0 < len(e["text"]) <= 3000 for e in elements)
        case "actions":
            return 0 < len(block["elements"]) <= 25 and all(
                len(e["text"]["text"]) <= 75 and len(e["value"]) <= 2000 for e in block["elements"]
            )
        case _:
            return False


def _app(slack: FakeSlack) -> FastAPI:
    app = FastAPI()

    async def api(request: Request) -> Response:
        method = request.path_params["method"]
        args = await _arguments(request)
        slack.calls.append(Call(method, args, time.monotonic()))
        problem = _refused(request, method, args)
        if problem:
            return JSONResponse({"ok": False, "error": problem})
        why = slack.fail[method].pop(0) if slack.fail[method] else ""
        if why in ("", "lost"):
            answered = slack.handle(method, args)
            return JSONResponse(answered) if not why else await _hang()
        return await _failing(why)

    async def respond(request: Request) -> Response:
        slack.responses.append(await request.json())
        return PlainTextResponse("ok")

    async def link(socket: WebSocket) -> None:
        await socket.accept()
        slack.loop = asyncio.get_running_loop()
        slack.sockets.append(socket)
        info = {"type": "hello", "num_connections": 1, "connection_info": {"app_id": APP}}
        await socket.send_json(info)
        try:
            async for text in socket.iter_text():
                slack.acks.append(json.loads(text))
        except WebSocketDisconnect:
            pass

    for function, kinds in (
        (api, {"request": Request, "return": Response}),
        (respond, {"request": Request, "return": Response}),
        (link, {"socket": WebSocket, "return": None}),
    ):
        function.__annotations__ = kinds
    app.add_api_route("/api/{method}", api, methods=["GET", "POST"], response_model=None)
    app.add_api_route("/respond", respond, methods=["POST"], response_model=None)
    app.add_api_websocket_route("/link", link)
    return app


async def _arguments(request: Request) -> dict[str, Any]:
    kind = request.headers.get("content-type", "")
    if request.method == "GET":
        return dict(request.query_params)
    if kind.startswith("application/json"):
        return dict(await request.json())
    return dict(await request.form())


def _refused(request: Request, method: str, args: dict[str, Any]) -> str:
    if method not in ARGUMENTS:
        return "unknown_method"
    token = APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN
    if request.headers.get("authorization") != f"Bearer {token}":
        return "invalid_auth"
    is_json = request.headers.get("content-type", "").startswith("application/json")
    if set(args) - ARGUMENTS[method] - {"token"} or (method in READING and is_json):
        return "invalid_arguments"
    return ""


async def _failing(why: str) -> Response:
    if why.startswith("429"):
        headers = {"Retry-After": why.partition(":")[2]}
        return JSONResponse({"ok": False, "error": "ratelimited"}, 429, headers=headers)
    if why == "500":
        return JSONResponse({"ok": False, "error": "internal_error"}, 500)
    if why == "text":
        return PlainTextResponse("upstream unavailable", 503)
    if why == "cut":
        return Response(status_code=200, headers={"content-length": "1000"})  # uvicorn cuts it
    if why == "hang":
        return await _hang()
    return JSONResponse({"ok": False, "error": why})


async def _hang() -> Response:
    await asyncio.sleep(30)
    return JSONResponse({"ok": False, "error": "too_late"})


# Requests as Slack sends them


def event_body(
    message: dict[str, Any], *, channel: str = "C1", event_id: str = "", kind: str = ""
) -> dict[str, Any]:
    """Return the body of an event about a message; a mention unless it is a direct message."""
    kind = kind or ("message" if channel.startswith("D") else "app_mention")
    event = {**message, "type": kind, "channel": channel, "event_ts": message["ts"]}
    if kind == "message":
        event["channel_type"] = "im" if channel.startswith("D") else "channel"
    return {
        "token": "x",
        "team_id": TEAM,
        "api_app_id": APP,
        "type": "event_callback",
        "event_id": event_id or f"Ev{kind}{message['ts']}",
        "event_time": 1700000000,
        "event": event,
        "authorizations": [{"team_id": TEAM, "user_id": BOT_USER, "is_bot": True}],
    }


def command_body(
    text: str, slack: FakeSlack, *, channel: str = "C1", trigger: str = "t1"
) -> dict[str, Any]:
    """Return the fields of a slash command."""
    return {
        "token": "x",
        "command": "/hpc",
        "text": text,
        "team_id": TEAM,
        "channel_id": channel,
        "user_id": "U1",
        "trigger_id": trigger,
        "api_app_id": APP,
        "response_url": f"http://127.0.0.1:{slack.port}/respond",
    }


def shortcut_body(
    message: dict[str, Any], slack: FakeSlack, *, channel: str = "C1", trigger: str = "t2"
) -> dict[str, Any]:
    """Return the payload of the message shortcut."""
    return {
        "type": "message_action",
        "callback_id": "answer_thread",
        "trigger_id": trigger,
        "team": {"id": TEAM},
        "user": {"id": "U2"},
        "channel": {"id": channel},
        "message": message,
        "message_ts": message["ts"],
        "response_url": f"http://127.0.0.1:{slack.port}/respond",
    }


def press_body(
    action: str, message: dict[str, Any], *, channel: str = "C1", user: str = "U1"
) -> dict[str, Any]:
    """Return the payload of a pressed button of a message."""
    buttons = [e for b in message["blocks"] if b["type"] == "actions" for e in b["elements"]]
    button = next(b for b in buttons if b["action_id"] == action)
    return {
        "type": "block_actions",
        "team": {"id": TEAM},
        "user": {"id": user},
        "api_app_id": APP,
        "trigger_id": "t3",
        "channel": {"id": channel},
        "container": {"type": "message", "message_ts": message["ts"], "channel_id": channel},
        "message": message,
        "actions": [
            {"type": "button", "block_id": "b", "action_id": action, "value": button["value"]}
        ],
    }


def signed(
    body: bytes, *, secret: str = SECRET, age_s: int = 0, kind: str = "application/json"
) -> dict[str, str]:
    """Return the headers of a request."""
    stamp = str(int(time.time()) - age_s)
    digest = hmac.new(secret.encode(), b"v0:" + stamp.encode() + b":" + body, hashlib.sha256)
    return {
        "content-type": kind,
        "x-slack-request-timestamp": stamp,
        "x-slack-signature": f"v0={digest.hexdigest()}",
    }


@dataclass
class Sender:
    """Sends requests to a bot's HTTP address and notes how long each acknowledgement took."""

    url: str
    seconds: list[float] = field(default_factory=list)

    def event(self, body: dict[str, Any], *, retry: int = 0, **signing: Any) -> httpx.Response:
        raw = json.dumps(body).encode()
        headers = signed(raw, **signing)
        if retry:
            headers |= {"x-slack-retry-num": str(retry), "x-slack-retry-reason": "http_timeout"}
        return self._send(raw, headers)

    def form(self, fields: dict[str, Any]) -> httpx.Response:
        raw = urlencode(fields).encode()
        return self._send(raw, signed(raw, kind="application/x-www-form-urlencoded"))

    def payload(self, payload: dict[str, Any]) -> httpx.Response:
        return self.form({"payload": json.dumps(payload)})

    def _send(self, raw: bytes, headers: dict[str, str]) -> httpx.Response:
        started = time.monotonic()
        response = httpx.post(self.url, content=raw, headers=headers, timeout=10, trust_env=False)
        self.seconds.append(time.monotonic() - started)
        return response
