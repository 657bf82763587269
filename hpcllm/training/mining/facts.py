"""Site facts: typed values of ``site.toml`` asked for, answered from the page that states them.

The value comes from the table of facts; the answer is the line of documentation that holds it, so
that the answer can be cited. A fact that no page states is left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hpcllm.assistant.language import subject_words
from hpcllm.assistant.units import split_units
from hpcllm.training.mining.texts import STATEMENT_WORDS, is_clean, with_stop
from hpcllm.training.records import Seed, Statement

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping, Sequence

    from hpcllm.records import Document

LIST_NAMES = ("name", "id", "app")
"""Keys that name an entry of a list of tables."""
_QUESTIONS = (
    "What is the {fact} of {owner}?",
    "{owner} {fact}",
    "{fact} {owner}?",
    "{owner}: {fact}?",
    "Which {fact} does {owner} have?",
    "I need to know the {fact} for {owner}",
)


def mine_facts(
    facts: Mapping[str, Any], documents: Sequence[Document], rng: random.Random
) -> Iterator[Seed]:
    """Yield questions on the values of a table of site facts.

    Args:
        facts: the parsed TOML.
        documents: pages of the site that it describes.
        rng: source of chance.
    """
    lines = [
        (document, unit, subject_words(f"{unit.context} {unit.lead} {unit.text}"))
        for document in documents
        if document.status == "current" and not document.language.startswith("pt")
        for unit in split_units(document.text, (document.title,))
        if unit.kind != "code" and unit.words <= STATEMENT_WORDS and is_clean(unit.text)
    ]
    for owner, name, value in _flatten(facts, ""):
        wanted = subject_words(f"{owner} {name}")
        holders = [
            (len(words & wanted), -len(words), document, unit)
            for document, unit, words in lines
            if _holds(unit.text, value) and len(words & wanted) >= 2
        ]
        if not holders:
            continue
        _, _, document, unit = max(holders, key=lambda item: item[:2])
        question = rng.choice(_QUESTIONS).format(fact=name, owner=owner)
        yield Seed(
            kind="site_fact",
            source=document.source,
            path=document.path,
            question=question,
            statements=(Statement(with_stop(unit.text), unit.quote.split("\n")[-1]),),
            cluster=document.cluster,
            topic=owner,
        )


def _flatten(value: Any, owner: str) -> Iterator[tuple[str, str, str]]:
    """Yield owner, name and value of every leaf that can be asked for."""
    if isinstance(value, dict):
        own = next((str(value[key]) for key in LIST_NAMES if key in value), "")
        here = f"{owner} {own}".strip()
        for key, inner in value.items():
            if isinstance(inner, dict | list):
                yield from _flatten(inner, f"{here} {_words(key)}".strip())
            elif key not in LIST_NAMES and not isinstance(inner, bool) and here:
                yield here, _words(key), str(inner)
    elif isinstance(value, list):
        for inner in value:
            if isinstance(inner, dict):
                yield from _flatten(inner, owner)


def _words(key: str) -> str:
    return key.replace("_", " ")


def _holds(text: str, value: str) -> bool:
    if len(value) < 2 or not re.search(r"\w", value):
        return False
    plain = text.replace(",", "").replace("`", "")
    return bool(re.search(rf"(?<![\w.]){re.escape(value)}(?![\w.]\w)", plain))
