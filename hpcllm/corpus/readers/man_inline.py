"""Text of man pages in three fonts as inline Markdown, and the last touches to their blocks.

Role: the final step of :mod:`hpcllm.corpus.readers.man_macros`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hpcllm.corpus.readers.base import anchor_of
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
    from collections.abc import Mapping

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


def option_name(runs: list[Run], name: str) -> str:
    """Return what names an item in an address: the first long option, else the first word in bold.

    Args:
        runs: the item's tag in fonts.
        name: the tag as plain text.
    """
    long = re.search(r"--([A-Za-z0-9][\w.-]*)", name)
    if long:
        return long[1].rstrip(".-")
    return runs[0].text.strip() if runs and runs[0].font != "R" else name.split("=")[0]


@dataclass(slots=True)
class Anchors:
    """Gives sections and options of one page their anchors, each only once.

    Attributes:
        options: the source's options, with the patterns ``option_anchor`` and ``section_anchor``.
        counts: how often each name was given already, less one.
    """

    options: Mapping[str, Any]
    counts: dict[str, int] = field(default_factory=dict)

    def of_option(self, name: str) -> str:
        """Return the anchor of an option or parameter, or an empty one."""
        pattern = self.options.get("option_anchor")
        if pattern:
            return self._unique(str(pattern), name.replace(" ", "-"))
        slug = re.sub(r"[^\w.]+", "-", name.lower()).strip("-.")
        return self._unique("opt-{name}", slug) if slug and len(slug) <= 60 else ""

    def of_section(self, name: str) -> str:
        """Return the anchor of a section, or an empty one where the site has no pattern."""
        pattern = self.options.get("section_anchor")
        return self._unique(str(pattern), name.replace(" ", "-")) if pattern else ""

    def _unique(self, pattern: str, name: str) -> str:
        count = self.counts.get(name, -1) + 1
        self.counts[name] = count
        return pattern.replace("{name}", f"{name}_{count}" if count else name)


def both_options(item: Item, name: str) -> bool:
    """Say whether ``name`` is an option like the ones of ``item``, which then share a text."""
    return name.startswith("-") and item.terms[-1].text.lstrip("*")[:1] == "-"


SYNOPSES = frozenset(("synopsis", "sinopse"))
"""Anchors of the sections that are kept as they stand."""


def with_synopsis(blocks: list[Block]) -> list[Block]:
    """Return the blocks with everything in a section SYNOPSIS as one preformatted block."""
    result: list[Block] = []
    kept: list[Block] | None = None
    for block in blocks:
        if isinstance(block, Heading) and block.level == 2:
            result += [Code("\n".join(map(bare, kept)))] if kept else []
            kept = [] if anchor_of(block.text) in SYNOPSES else None
            result.append(block)
        elif kept is None:
            result.append(block)
        else:
            kept.append(block)
    return [*result, Code("\n".join(map(bare, kept)))] if kept else result


def tidied(blocks: list[Block]) -> list[Block]:
    """Return the blocks with sentences that were set as names without text as paragraphs.

    Pages use the tag of an item for lines such as "The order is as follows:".
    """
    result: list[Block] = []
    for block in blocks:
        match block:
            case Definitions(items=items):
                result += _split(items)
            case Listing(items=entries, start=start):
                result.append(Listing([tidied(entry) for entry in entries], start))
            case _:
                result.append(block)
    return result


def _split(items: list[Item]) -> list[Block]:
    result: list[Block] = []
    for item in items:
        body = tidied(item.body)
        if not body and len(item.terms) == 1 and _is_sentence(item.terms[0].text):
            result.append(Paragraph(item.terms[0].text))
        elif result and isinstance(result[-1], Definitions):
            result[-1].items.append(Item(item.terms, body))
        else:
            result.append(Definitions([Item(item.terms, body)]))
    return result


def _is_sentence(text: str) -> bool:
    return not text.startswith(("*", "-")) and len(text.split()) >= 3
