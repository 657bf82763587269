"""Questions and answers written by a larger model, and kept only where they can be trusted.

Role: an optional source of seeds. A teacher behind any OpenAI-compatible endpoint is shown a
section and writes questions with short answers; an answer is kept if its facts stand in the
section, its question does not give it away, and no kept question says the same.
"""

from __future__ import annotations

import json
import logging
import random
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcllm.errors import GenerationError
from hpcllm.models.backends.base import GenerationSettings, Message
from hpcllm.training.assembly import Dropped, key_facts, squash
from hpcllm.training.dataset import documents_of
from hpcllm.training.handwritten import HandwrittenQuestion, resolve
from hpcllm.training.sections import sections_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hpcllm.index.embedders.base import Embedder
    from hpcllm.models.backends.base import Backend
    from hpcllm.records import Document
    from hpcllm.training.assembly import Site
    from hpcllm.training.records import Section, Seed

logger = logging.getLogger(__name__)

QUESTIONS_PER_SECTION = 3
SECTION_WORDS = (25, 500)
"""Shortest and longest section in words that is shown to the teacher."""
ANSWER_WORDS = 60
SAME_QUESTION = 0.9
"""Cosine from which two questions count as the same."""
FAILURES_IN_A_ROW = 5
"""Failed requests after which the teacher is given up."""

INSTRUCTION = """\
Write {count} questions that users of a computing centre would send to its support and that the \
section below answers, as people really write: some as keywords, some as a short mail, \
some with a pasted error, some in other words than the section's. Give each the short answer that \
good support staff would send: at most 50 words, commands and values copied exactly, code in \
backticks, nothing that the section does not say. Write in {language}.
Reply with JSON only: [{{"question": "…", "answer": "…", "kind": "keyword|how_to|email|error"}}]

Page: {title}
Section: {heading}

{text}"""
_LANGUAGES = {"en": "English", "pt": "Portuguese"}
_LIST = re.compile(r"\[.*\]", re.DOTALL)


def teach(
    backend: Backend,
    sites: Sequence[Site],
    *,
    limit: int,
    seed: int,
    embedder: Embedder | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> list[Seed]:
    """Let a teacher write seeds.

    Args:
        backend: the teacher.
        sites: whose pages are shown, in random order.
        limit: most seeds that are kept.
        seed: source of all chance.
        embedder: tells questions that say the same; None compares their words.
        progress: called with seeds kept since the last call, and ``limit``.

    Returns:
        What was kept.

    Raises:
        GenerationError: the teacher failed several times in a row; what it wrote is lost.
    """
    rng = random.Random(seed)
    places = [place for site in sites for place in _places(site)]
    rng.shuffle(places)
    kept: list[Seed] = []
    failures = 0
    for document, section in places:
        if len(kept) >= limit:
            break
        try:
            rows = ask_teacher(backend, section, seed)
            failures = 0
        except GenerationError as exc:
            failures += 1
            logger.warning("the teacher failed on %s: %s", section.path, exc)
            if failures >= FAILURES_IN_A_ROW:
                raise
            continue
        found = [made for row in rows if (made := filtered(row, section, document)) is not None]
        kept += found[: limit - len(kept)]
        if progress:
            progress(len(found), limit)
    return without_repeats(kept, embedder)


def _places(site: Site) -> Iterator[tuple[Document, Section]]:
    shortest, longest = SECTION_WORDS
    for document in documents_of(site):
        for section in sections_of(document):
            if shortest <= len(_text(section).split()) <= longest:
                yield document, section


def _text(section: Section) -> str:
    return "\n\n".join(block.text for block in section.blocks)


def ask_teacher(backend: Backend, section: Section, seed: int) -> list[dict[str, Any]]:
    """Return what the teacher writes on a section; nothing where it is no list of objects.

    Raises:
        GenerationError: the endpoint failed.
    """
    text = INSTRUCTION.format(
        count=QUESTIONS_PER_SECTION,
        language=_LANGUAGES[section.language],
        title=section.title,
        heading=section.topic,
        text=_text(section),
    )
    settings = GenerationSettings(answer_tokens=900, temperature=0.8, seed=seed)
    with backend.generate([Message("user", text)], settings) as stream:
        reply = stream.read()
    match = _LIST.search(reply)
    try:
        rows = json.loads(match.group()) if match else []
    except ValueError:
        logger.info("the teacher's reply on %s is no JSON", section.path)
        return []
    return [row for row in rows if isinstance(row, dict)]


def filtered(row: dict[str, Any], section: Section, document: Document) -> Seed | None:
    """Return the seed of a teacher's question, or None where it cannot be trusted.

    Kept is an answer that is short, holds at least one fact (code or number), whose every fact
    stands in the section and none in the question, and that lines of the section support.
    """
    question, answer = str(row.get("question", "")).strip(), str(row.get("answer", "")).strip()
    if not question or not answer or len(answer.split()) > ANSWER_WORDS:
        return None
    written = HandwrittenQuestion(
        id="",
        question=question,
        answer=answer,
        source=section.source,
        path=section.path,
        heading=section.headings[-1] if section.headings else "",
        kind=str(row.get("kind") or "how_to"),
        language=section.language,
    )
    try:
        seed = resolve(written, document)
    except Dropped:
        return None
    held = squash(_text(section))
    facts = key_facts(seed)
    if not facts or not all(squash(fact) in held for fact in facts):
        return None
    return replace(seed, kind=f"taught_{written.kind}")


def without_repeats(seeds: Sequence[Seed], embedder: Embedder | None) -> list[Seed]:
    """Return the seeds whose question no earlier one asks already."""
    first = {squash(seed.question): seed for seed in reversed(seeds)}
    unique = list(first.values())[::-1]
    if embedder is None or not unique:
        return unique
    vectors = embedder.embed([seed.question for seed in unique])  # (n, dimension)
    kept: list[int] = []
    for index in range(len(unique)):
        if not kept or float(np.max(vectors[kept] @ vectors[index])) < SAME_QUESTION:
            kept.append(index)
    return [unique[index] for index in kept]
