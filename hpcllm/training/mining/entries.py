"""Entries of option lists and definition lists, asked about both ways."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hpcllm.assistant.units import clean_inline
from hpcllm.training.mining.texts import first_sentences, lower_start, seed, with_stop
from hpcllm.training.records import Statement
from hpcllm.training.wording import phrase

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from hpcllm.corpus.blocks import Block
    from hpcllm.training.records import Section, Seed

TERM_WORDS = 8
"""Longest term in words."""
_OPTION = re.compile(r"--?[A-Za-z][\w-]*")
_STARTS = re.compile(r"^:[ \t]+")


def mine_entries(section: Section, rng: random.Random) -> Iterator[Seed]:
    """Yield what each entry means, and which entry it is."""
    for block in section.blocks:
        if block.kind == "item":
            yield from _entry(section, block, rng)


def _entry(section: Section, block: Block, rng: random.Random) -> Iterator[Seed]:
    term = clean_inline(block.label)
    text, quote = first_sentences(_first_paragraph(block), words=34)
    if not text or not term or len(term.split()) > TERM_WORDS or len(text.split()) < 3:
        return
    term_quote = block.text.split("\n")[0].strip()
    name = _short_name(term)
    code = term if "`" in term else f"`{term}`" if _is_technical(term) else term
    answer = Statement(with_stop(f"{code}: {text}"), quote)
    kind = "option" if _is_technical(term) else "definition"
    slots = {"name": name, "topic": section.topic, "title": section.title}
    question = phrase(rng, section.language, "OPTION_MEANING", **slots)
    yield seed(kind, section, question, answer)
    about = lower_start(text.split(". ")[0])
    if 4 <= len(about.split()) <= 25 and not _names(about, name):
        question = phrase(rng, section.language, "OPTION_NAME", about=about, **slots)
        statement = Statement(with_stop(f"{code}: {text}"), f"{term_quote}\n{quote}")
        yield seed(f"{kind}_name", section, question, statement)


def _names(text: str, name: str) -> bool:
    return bool(re.search(rf"\b{re.escape(name.strip('`-'))}\b", text, re.IGNORECASE))


def _first_paragraph(block: Block) -> str:
    lines: list[str] = []
    for line in block.lines[len(block.terms) :]:
        bare = _STARTS.sub("", line).strip()
        if not bare or bare.startswith(("```", "~~~", "- ", "* ", "|")):
            if lines:
                break
            continue
        lines.append(bare)
    return " ".join(lines)


def _short_name(term: str) -> str:
    """Return the term as a user would write it: the longest option, else the term."""
    bare = term.replace("`", "")
    options = _OPTION.findall(bare)
    return max(options, key=len) if options else bare


def _is_technical(term: str) -> bool:
    return bool(re.search(r"[-_=/`<>$.]|\d|[A-Z][a-z]+[A-Z]|^[A-Z_]{3,}$", term))
