"""The chat page over the reference handbook with the real default embedder and model."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.integration.server.conftest import ROOT, free_port, until_up
from tests.integration.ui.conftest import Chat
from tests.integration.ui.page_server import REFERENCE

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.models]

PAGES = ("partitions.md", "requesting-gpus.md", "scratch-purge.md")
SLOW_MS = 240_000


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, real_home: Path) -> Iterator[str]:
    """``hpcllm serve`` as a user runs it, over three pages."""
    root = tmp_path_factory.mktemp("default") / "site"
    (root / "corpus" / "docs").mkdir(parents=True)
    for name in PAGES:
        shutil.copy(REFERENCE / "corpus" / "meridian" / name, root / "corpus" / "docs")
    shutil.copytree(REFERENCE / "ui", root / "ui")
    shutil.copy(REFERENCE / "hpcllm.toml", root)
    (root / "corpus" / "sources.toml").write_text(
        '[[source]]\nname = "docs"\nkind = "folder"\npath = "corpus/docs"\n'
    )
    environment = {**os.environ, "HPCLLM_HOME": str(real_home)}
    program = [sys.executable, "-m", "hpcllm"]
    subprocess.run([*program, "ingest", "-w", str(root)], check=True, env=environment, cwd=ROOT)
    port = free_port()
    command = [*program, "serve", "--port", str(port), "-w", str(root)]
    process = subprocess.Popen(command, env=environment, cwd=ROOT)
    until_up(process, f"http://127.0.0.1:{port}")
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait(30)


def test_a_real_answer_names_the_partition_and_shows_where_it_stands(
    served: str, new_context: Callable[..., BrowserContext]
) -> None:
    chat = Chat(new_context().new_page()).open(served)
    chat.begin("How do I request two A100 GPUs for 12 hours?")
    expect(chat.turns).to_have_count(1, timeout=SLOW_MS)
    expect(chat.last.locator(".hl-answer > .hl-text")).to_contain_text("--gres=gpu:a100:2")
    chat.last.locator("a.hl-cite").first.click()
    expect(chat.last.locator(".hl-source blockquote").first).to_be_visible()
    place = chat.last.get_by_role("link", name="Read it here").first.get_attribute("href") or ""
    assert any(name in place for name in PAGES)
    expect(chat.last.locator(".hl-how")).to_contain_text("Checked against the sources")
