"""Text of man pages in three fonts, written as inline Markdown or as plain lines.

Role: the last step of :mod:`hpcllm.corpus.readers.man_macros`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hpcllm.corpus.readers.blocks import (
    Block,
    Code,
    Definitions,
    Heading,
    Item,
    Listing,
    Paragraph,
    Quote,
    Table,
    emphasised,
    plain,
)

if TYPE_CHECKING:
    from hpcllm.corpus.readers.roff import Run

MARKS = {"B": "**", "I": "*"}
STARTS_WORD = re.compile(r"(^|\s)[(\[{\"'“‘]*$")
ENDS_WORD = re.compile(r"^[.,;:!?)\]}\"'”’…]*(\s|$)")


def markdown(runs: list[Run], *, term: bool = False) -> str:
    """Return ``runs`` as inline Markdown on one line per line of the source.

    Args:
        runs: text in fonts, neighbours in different fonts.
        term: whether this is the name of an item, where bold is always kept. In prose, emphasis
            is kept on whole words only: ``--mem=``*size* has to stay one word to be found.
    """
    parts = []
    for place, run in enumerate(runs):
        before = runs[place - 1].text if place else ""
        after = runs[place + 1].text if place + 1 < len(runs) else ""
        keep = _stands_alone(run, before, after) or (term and _may_be_marked(run, before, after))
        mark = MARKS.get(run.font, "")
        parts.append(emphasised(run.text, mark) if mark and keep else run.text)
    text = re.sub(r"[ \t\xa0]+", " ", "".join(parts))
    return re.sub(r" ?\n ?", "\n", text).strip()


def _stands_alone(run: Run, before: str, after: str) -> bool:
    starts = run.text[:1].isspace() or STARTS_WORD.search(before)
    ends = run.text[-1:].isspace() or ENDS_WORD.search(after)
    return bool(starts and ends) and "\n" not in run.text.strip()


def _may_be_marked(run: Run, before: str, after: str) -> bool:
    if run.font == "I":
        return not (before[-1:].isalnum() or before.endswith("<") or after[:1].isalnum())
    return True


def bare(block: Block) -> str:
    """Return a block as plain lines, as a synopsis shows it."""
    match block:
        case Paragraph(text=text) | Heading(text=text):
            return unmarked(text)
        case Code(text=text):
            return text
        case Definitions(items=items):
            return "\n".join(map(_bare_item, items))
        case Listing(items=entries):
            return "\n".join(f"- {bare(part)}" for entry in entries for part in entry)
        case Table(rows=rows):
            return "\n".join("  ".join(map(plain, row)) for row in rows)
        case Quote(blocks=blocks):
            return "\n".join(map(bare, blocks))


def _bare_item(item: Item) -> str:
    names = "\n".join(unmarked(term.text) for term in item.terms)
    body = "\n".join(f"    {line}" for part in item.body for line in bare(part).split("\n"))
    return f"{names}\n{body}" if body else names


def unmarked(text: str) -> str:
    """Return text without the emphasis that :func:`markdown` put around whole words."""
    text = re.sub(r"\*\*(\S|\S.*?\S)\*\*", r"\1", text)
    return re.sub(r"(?<![\w*])\*([^\s*]|[^\s*][^*\n]*[^\s*])\*(?![\w*])", r"\1", text)
