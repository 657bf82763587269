"""A small indexed site with a scripted model, and recorded answers, for tests of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from hpcllm.assistant.assistant import Assistant, Options, Writer
from hpcllm.assistant.prompt import PromptBudget
from hpcllm.index.build import build_generation
from hpcllm.index.embedders.hashing import HashEmbedder
from hpcllm.index.generation import open_current
from hpcllm.index.search import Searcher
from hpcllm.models.backends.scripted import ScriptedBackend
from hpcllm.records import Answer, Check, Citation, Event, Passage, Receipt, Usage
from tests.unit.index.helpers import corpus, page

QUOTA = "The quota of the home folder is 50 GB for each user of the cluster."
GPU = "Request graphics cards of the gpu partition with the option `--gres=gpu:a100:2`."
TICKET = "We raised the quota of the home folder of the whale project to 80 GB."
RIGHT = "The quota of the home folder is 50 GB [1]."
"""An answer to the question below that passes all checks."""
QUESTION = "What is the quota of the home folder?"


def build_site(index_dir: Path, *, quota: str = "50 GB", has_ticket: bool = False) -> str:
    """Index two pages and perhaps a ticket; return the name of the generation."""
    about = {"kind": "ticket", "date": "2026-03-01", "scope": "tickets"}
    ticket = page("desk.jsonl/7", [TICKET], title="Raised quota", metadata=about)
    documents, chunks = corpus(
        page("storage.md", [QUOTA.replace("50 GB", quota)], title="Storage", heading="Quota"),
        page("gpu.md", [GPU], title="Graphics cards"),
        *([ticket] if has_ticket else []),
    )
    return build_generation(index_dir, chunks, documents, HashEmbedder()).generation


def open_assistant(
    index_dir: Path,
    answers: Sequence[Any] | None = (RIGHT,),
    *,
    delay_s: float = 0.0,
    adapted: bool = True,
    minimum_evidence: float = 0.0,
) -> Assistant:
    """Open an assistant on the current generation; ``answers`` None answers by extraction."""
    embedder = HashEmbedder()
    writer = None
    if answers is not None:
        backend = ScriptedBackend(answers, delay_s=delay_s)
        writer = Writer(backend, budget=PromptBudget(tokens=2000), adapted=adapted)
    return Assistant(
        Searcher(open_current(index_dir), embedder),
        embedder=embedder,
        writer=writer,
        options=Options(minimum_evidence=minimum_evidence),
    )


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine for at most ten seconds."""
    return asyncio.run(asyncio.wait_for(coroutine, 10))


async def collect(events: Any) -> list[Event]:
    return [event async for event in events]


async def until(condition: Callable[[], Any]) -> None:
    """Wait until a condition holds."""
    while not condition():
        await asyncio.sleep(0.005)


def answer(receipt_id: str = "a" * 16, **changes: Any) -> Answer:
    """Return a finished answer."""
    values: dict[str, Any] = {
        "question": QUESTION,
        "text": RIGHT,
        "abstained": False,
        "citations": (
            Citation(
                1,
                1,
                "docs",
                "storage.md",
                "Storage",
                "https://d.example/s#quota",
                ("Quota",),
                QUOTA,
            ),
        ),
        "checks": (Check("citations", True, "1 of 1"),),
        "passages": (
            Passage(
                1, 0.5, 0.9, "docs", "storage.md", "Storage", None, ("Quota",), QUOTA, ("c" * 32,)
            ),
        ),
        "model": "scripted",
        "standalone_question": QUESTION,
        "timings_ms": {"total": 12.34},
        "usage": Usage(30, 9),
        "receipt": Receipt(receipt_id, "gen-1", "scripted", chunk_ids=("c" * 32,)),
    }
    return Answer(**values | changes)
