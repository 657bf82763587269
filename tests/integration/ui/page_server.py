"""A real server with all pages over the reference site's cluster pages and a scripted model.

Run: python -m tests.integration.ui.page_server FOLDER PORT '{"delay_s": 0.01}'

The model copies from its first passage, so that its drafts pass the checks; a question that holds
"xyzzy" is answered with hostile Markdown, one that holds "Take your time" at length.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvicorn

from hpcllm.assistant.assistant import Assistant, Writer
from hpcllm.assistant.opening import options_of
from hpcllm.assistant.prompt import PromptBudget
from hpcllm.index.embedders.hashing import HashEmbedder
from hpcllm.index.generation import open_current
from hpcllm.index.search import Searcher
from hpcllm.index.update import update_workspace
from hpcllm.models.backends.base import Message
from hpcllm.models.backends.scripted import ScriptedBackend
from hpcllm.server.access import Access
from hpcllm.server.app import create_app
from hpcllm.server.credentials import CREDENTIALS_FILE
from hpcllm.server.service import AssistantService
from hpcllm.server.store import Store
from hpcllm.ui.mount import mount_pages
from hpcllm.workspace import Workspace

REFERENCE = Path(__file__).parents[3]
HOSTILE = Path(__file__).parents[2] / "data" / "ui" / "hostile.md"
SETTINGS = """\
[site]
name = "Meridian HPC support"
cluster = "meridian"
support = "support@meridian.example"
[index]
embedder = "hashing"
[model]
id = "extractive"
"""
SOURCES = f"""\
[[source]]
name = "meridian"
kind = "folder"
path = "{REFERENCE / "corpus" / "meridian"}"
base_url = "https://docs.meridian.example/"
cluster = "meridian"
options = {{ url_style = "directory" }}
"""
_PASSAGE = re.compile(r"<passage>\n\[1\][^\n]*\n(?:\([^\n]*\)\n)?(.*?)\n</passage>", re.DOTALL)


def make_workspace(folder: Path) -> Workspace:
    """Make and index a workspace in an empty folder; the pages are read from the checkout."""
    (folder / "corpus").mkdir(parents=True)
    (folder / "hpcllm.toml").write_text(SETTINGS, encoding="utf-8")
    (folder / "corpus" / "sources.toml").write_text(SOURCES, encoding="utf-8")
    shutil.copytree(REFERENCE / "ui", folder / "ui")
    workspace = Workspace.find(folder)
    update_workspace(workspace)
    return workspace


def draft(messages: Sequence[Message]) -> str:
    """Return the beginning of the first passage with its mark."""
    asked = messages[-1].content
    if "xyzzy" in asked:
        return HOSTILE.read_text(encoding="utf-8") + " [1]"
    match = _PASSAGE.search(asked)
    if match is None:
        return "The documentation does not say."
    prose = [
        line
        for line in match.group(1).splitlines()
        if line.strip() and not re.match(r"[#|`\-*>]|\s|\d", line)
    ]
    sentences = re.split(r"(?<=[.:])\s+", " ".join(prose) or match.group(1).strip())
    repeated = sentences[:6] * (5 if "Take your time" in asked else 1)
    return " ".join(f"{sentence} [1]" for sentence in repeated)


def main(folder: Path, port: int, options: dict[str, Any]) -> None:
    """Serve until the process is ended."""
    workspace = Workspace.find(folder)
    embedder = HashEmbedder()
    generation = open_current(workspace.index_dir)
    writer = None
    if options.get("model", True):
        backend = ScriptedBackend([draft], delay_s=options.get("delay_s", 0.0))
        writer = Writer(backend, budget=PromptBudget(tokens=2000), adapted=True)
    assistant = Assistant(
        Searcher(generation, embedder),
        embedder=embedder,
        writer=writer,
        options=options_of(workspace, clusters=generation.manifest.clusters),
    )
    store = Store.open(workspace.database)
    service = AssistantService(
        assistant,
        index_dir=workspace.index_dir,
        store=store,
        waiting=options.get("waiting", 16),
    )
    access = Access(workspace.var_dir / CREDENTIALS_FILE)
    app = create_app(service, store, access=access, name=workspace.settings.site.name)
    mount_pages(app, service, store, workspace)
    uvicorn.run(app, port=port, root_path=options.get("root_path", ""), log_level="warning")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
