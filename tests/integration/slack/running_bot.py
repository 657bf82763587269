"""A bot over the small indexed site of the server's tests, run in a thread of the test."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn

from hpcllm.models.backends.base import GenerationSettings
from hpcllm.models.backends.openai_api import Secret
from hpcllm.server.service import AssistantService
from hpcllm.server.store import Store
from hpcllm.ui.slack.app import build_app
from hpcllm.ui.slack.bot import Bot
from hpcllm.ui.slack.outbox import Outbox
from hpcllm.ui.slack.running import EVENTS_PATH, connected, http_app
from hpcllm.ui.slack.settings import SlackSettings, Tokens
from tests.integration.slack.fake_slack import APP_TOKEN, BOT_TOKEN, SECRET, FakeSlack, Sender
from tests.unit.server.helpers import RIGHT, build_site, open_assistant


def wait_for(condition: Callable[[], Any], seconds: float = 10.0) -> Any:
    """Wait until a condition holds and return what it gave."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError("waited in vain")


def make_bot(
    folder: Path,
    slack: FakeSlack,
    store: Store,
    *,
    answers: Sequence[Any] | None = (RIGHT,),
    settings: dict[str, Any] | None = None,
    delay_s: float = 0.0,
    minimum_evidence: float = 0.0,
    edit_gap_s: float = 0.0,
    waiting: int = 16,
    answer_tokens: int = 0,
    post_gap_s: float = 0.0,
    patience_s: float = 60.0,
) -> Bot:
    if not (folder / "index").exists():
        build_site(folder / "index")
    assistant = open_assistant(
        folder / "index", answers, delay_s=delay_s, minimum_evidence=minimum_evidence
    )
    if answer_tokens and assistant.writer:
        longer = GenerationSettings(answer_tokens=answer_tokens)
        assistant.writer = replace(assistant.writer, settings=longer)
    service = AssistantService(assistant, store=store, waiting=waiting)
    outbox = Outbox(
        Secret(BOT_TOKEN), api_url=slack.api_url, post_gap_s=post_gap_s, patience_s=patience_s
    )
    chosen = SlackSettings.model_validate(settings or {})
    return Bot(service, store, outbox, chosen, edit_gap_s=edit_gap_s)


@contextmanager
def http_bot(folder: Path, slack: FakeSlack, store: Store, **options: Any) -> Iterator[Sender]:
    """Run a bot in HTTP mode."""
    listener = socket.create_server(("127.0.0.1", 0))
    server: list[uvicorn.Server] = []

    async def main() -> None:
        bot = make_bot(folder, slack, store, **options)
        await bot.identify()
        tokens = Tokens(Secret(BOT_TOKEN), signing_secret=Secret(SECRET))
        web = http_app(bot, build_app(bot, tokens))
        server.append(uvicorn.Server(uvicorn.Config(web, log_level="error")))
        await server[0].serve(sockets=[listener])

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    wait_for(lambda: server and server[0].started)
    try:
        yield Sender(f"http://127.0.0.1:{listener.getsockname()[1]}{EVENTS_PATH}")
    finally:
        server[0].should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@contextmanager
def socket_bot(folder: Path, slack: FakeSlack, store: Store, **options: Any) -> Iterator[None]:
    """Run a bot in Socket Mode."""
    loops: list[asyncio.AbstractEventLoop] = []
    stopped = asyncio.Event()

    async def main() -> None:
        bot = make_bot(folder, slack, store, **options)
        await bot.identify()
        tokens = Tokens(Secret(BOT_TOKEN), app=Secret(APP_TOKEN))
        async with connected(bot, tokens):
            loops.append(asyncio.get_running_loop())
            await stopped.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    wait_for(lambda: loops and slack.sockets)
    try:
        yield
    finally:
        loops[0].call_soon_threadsafe(stopped.set)
        thread.join(20)
        assert not thread.is_alive()
