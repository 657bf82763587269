"""Run the bot: in Socket Mode (Slack is called, nothing listens) or behind a web address.

Role: put the parts together and end them in order when told to stop.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from slack_bolt.adapter.fastapi.async_handler import AsyncSlackRequestHandler
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_sdk.errors import SlackApiError

from hpcllm.errors import ConfigError
from hpcllm.ui.slack.app import build_app

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator

    from fastapi import FastAPI
    from slack_bolt.app.async_app import AsyncApp

    from hpcllm.ui.slack.bot import Bot
    from hpcllm.ui.slack.settings import Tokens

logger = logging.getLogger(__name__)

EVENTS_PATH = "/slack/events"
"""Where Slack sends everything in HTTP mode."""
BODY_LIMIT = 1024 * 1024
"""Largest request in bytes; Slack's own are far smaller."""
GRACE_S = 5
"""Seconds that open requests are given at the end."""


def http_app(bot: Bot, app: AsyncApp) -> FastAPI:
    """Return the web application of HTTP mode; it starts and closes the bot."""
    from fastapi import FastAPI, Request, Response

    from hpcllm.server.gate import BodyLimit

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await bot.start()
        try:
            yield
        finally:
            await bot.close()

    web = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    handler = AsyncSlackRequestHandler(app)

    async def events(request: Request) -> Response:
        answered: Response = await handler.handle(request)
        return answered

    async def health() -> dict[str, Any]:
        await asyncio.to_thread(bot.store.ping)
        return {"status": "ok"}

    events.__annotations__ |= {"request": Request, "return": Response}
    web.add_api_route(EVENTS_PATH, events, methods=["POST"], response_model=None)
    web.add_api_route("/healthz", health, methods=["GET"])
    web.add_middleware(BodyLimit, limit=BODY_LIMIT)
    return web


async def serve_http(bot: Bot, tokens: Tokens, listener: socket.socket) -> None:
    """Serve Slack's requests until the process is told to stop."""
    import uvicorn

    await bot.identify()
    config = uvicorn.Config(
        http_app(bot, build_app(bot, tokens)),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    await uvicorn.Server(config).serve(sockets=[listener])


async def serve_socket(bot: Bot, tokens: Tokens) -> None:
    """Stay connected to Slack until the process is told to stop.

    Raises:
        ConfigError: a token is refused.
    """
    await bot.identify()
    async with connected(bot, tokens):
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        await stopped.wait()


@asynccontextmanager
async def connected(bot: Bot, tokens: Tokens) -> AsyncIterator[AsyncSocketModeHandler]:
    """Start a bot that knows who it is, connect it by Socket Mode, and close both at the end."""
    if tokens.app is None:
        raise ConfigError("Socket Mode needs SLACK_APP_TOKEN in the environment (docs/slack.md)")
    address = await _first_address(bot, tokens.app.reveal())
    handler = AsyncSocketModeHandler(build_app(bot, tokens), tokens.app.reveal())
    handler.client.wss_uri = address
    try:
        await bot.start()
        await handler.connect_async()
        yield handler
    finally:
        if handler.client.current_session is not None:
            await handler.close_async()
        else:
            await handler.client.aiohttp_client_session.close()
        await bot.close()


async def _first_address(bot: Bot, app_token: str) -> str:
    """Ask for the first connection ourselves: the client would retry a refused token for ever."""
    try:
        opened = await bot.outbox.client.apps_connections_open(app_token=app_token)
    except SlackApiError as exc:
        code = exc.response.get("error")
        raise ConfigError(
            f"Slack refused SLACK_APP_TOKEN ({code}): make an app-level token with the scope "
            "connections:write on the app's page Basic Information, and switch Socket Mode on"
        ) from exc
    return str(opened["url"])
