from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlparse

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from hpcllm.server.store import Store
from hpcllm.workspace import Workspace
from tests.integration.server.conftest import ROOT, free_port, until_up
from tests.integration.ui.page_server import make_workspace

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--no-first-run"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
]
QUESTION = "How long do files stay on scratch before the purge removes them?"
LONG_QUESTION = f"{QUESTION} Take your time."
"""Its answer takes some seconds to write."""
PATIENCE_MS = 30_000

expect.set_options(timeout=PATIENCE_MS)


@dataclass
class Site:
    """A running server with all pages."""

    url: str
    workspace: Workspace

    def store(self) -> Store:
        return Store.open(self.workspace.database)


class Chat:
    """What a person does on the chat page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.box = page.locator("#hl-question textarea")
        self.turns = page.locator("#hl-log .hl-turn")
        self.live = page.locator("#hl-live .hl-turn")
        self.last = self.turns.last

    def open(self, url: str) -> Chat:
        self.page.goto(url)
        expect(self.page.locator("body[data-prepared]")).to_have_count(1)
        return self

    def ask(self, question: str) -> None:
        """Ask and wait until the answer is finished."""
        before = self.turns.count()
        self.begin(question)
        expect(self.turns).to_have_count(before + 1)
        self.until_idle()

    def begin(self, question: str) -> None:
        self.box.fill(question)
        self.box.press("Enter")

    def until_idle(self) -> None:
        expect(self.page.get_by_role("button", name="Send", exact=True)).to_be_visible()
        expect(self.live).to_have_count(0)


@pytest.fixture(scope="module")
def start_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Site]]:
    """Start a server over a workspace of its own; it is killed when the module is done."""
    processes: list[subprocess.Popen[bytes]] = []

    def begin(prepare: Callable[[Workspace], None] | None = None, **options: Any) -> Site:
        folder = tmp_path_factory.mktemp("site") / "site"
        workspace = make_workspace(folder)
        if prepare:
            prepare(workspace)
        port = free_port()
        module = "tests.integration.ui.page_server"
        command = [sys.executable, "-m", module, str(folder), str(port), json.dumps(options)]
        environment = {**os.environ, "HPCLLM_HOME": str(folder / "home")}
        process = subprocess.Popen(command, cwd=ROOT, env=environment)
        processes.append(process)
        url = f"http://127.0.0.1:{port}"
        until_up(process, url)
        return Site(url, workspace)

    yield begin
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def site(start_site: Callable[..., Site]) -> Site:
    """A server whose model writes a word every 15 ms."""
    return start_site(delay_s=0.015)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, which reaches this machine alone."""
    if CHROMIUM is None:
        pytest.skip("no chromium: apt-get install chromium fonts-dejavu-core")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def new_context(chromium: Browser) -> Iterator[Callable[..., BrowserContext]]:
    """Open browsers of different people; fails where any page asked another host for anything."""
    contexts: list[BrowserContext] = []
    outside: list[str] = []

    def note(request: Any) -> None:
        host = urlparse(request.url).hostname
        if not request.url.startswith(("data:", "blob:")) and host != "127.0.0.1":
            outside.append(request.url)

    def begin(**options: Any) -> BrowserContext:
        options = {"locale": "en-GB", "viewport": {"width": 1180, "height": 860}, **options}
        context = chromium.new_context(**options)
        context.set_default_timeout(PATIENCE_MS)
        context.on("request", note)
        contexts.append(context)
        return context

    yield begin
    for context in contexts:
        context.close()
    assert outside == []


@pytest.fixture
def page(new_context: Callable[..., BrowserContext]) -> Page:
    return new_context().new_page()


@pytest.fixture
def chat(page: Page, site: Site) -> Chat:
    """The chat page, empty."""
    return Chat(page).open(site.url)
