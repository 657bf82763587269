"""Pages become sections: what the miners read.

Role: first step of making a data set; uses the one parser of the canonical dialect.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from hpcllm.assistant.language import detect_language
from hpcllm.assistant.units import clean_inline
from hpcllm.corpus.blocks import parse_blocks
from hpcllm.training.records import Section

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hpcllm.corpus.blocks import Block
    from hpcllm.records import Document
    from hpcllm.training.records import Language

LANGUAGE_CHARACTERS = 2000
"""Characters of a page that its language is told from."""
_SYMBOLS = re.compile(r"[\U0001F000-\U0001FAFF\u2600-\u27BF\uFE0F\u200D]+")
_NUMBERING = re.compile(r"^\s*(?:\d+(?:\.\d+)*[.)]?|[IVX]+\.)\s+(?=\S)")


def sections_of(document: Document) -> Iterator[Section]:
    """Yield the sections of a page in reading order; empty ones are left out."""
    headings: list[tuple[int, str]] = []
    held: list[Block] = []
    for block in parse_blocks(document.text):
        if block.kind != "heading":
            held.append(block)
            continue
        if held:
            yield _section(document, headings, held)
        held = []
        headings = [h for h in headings if h[0] < block.level]
        headings.append((block.level, clean_heading(block.label)))
    if held:
        yield _section(document, headings, held)


def clean_heading(label: str) -> str:
    """Return a heading's text without markup and numbering."""
    plain = _SYMBOLS.sub("", clean_inline(label).replace("**", "")).strip(" :#")
    return _NUMBERING.sub("", plain).strip()


@lru_cache(maxsize=1024)
def _language(document_language: str, start: str) -> Language:
    """Return the language of a page: sites seldom state it for every page."""
    stated: Language = "pt" if document_language.lower().startswith("pt") else "en"
    return detect_language(start, stated)


def _section(document: Document, headings: list[tuple[int, str]], held: list[Block]) -> Section:
    names = tuple(name for _, name in headings if name and name != document.title)
    language = _language(document.language, document.text[:LANGUAGE_CHARACTERS])
    return Section(
        source=document.source,
        path=document.path,
        title=clean_heading(document.title),
        headings=names,
        blocks=tuple(held),
        language=language,
        cluster=document.cluster,
    )
