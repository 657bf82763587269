"""A seed becomes an example: the passages that the product would show, the prompt, the completion.

Role: searches the site's own index with the question, so that passages, distractors and near
misses are those of the product; puts the passage that answers among them where the search missed
it; and keeps an example only if its answer can be read off the prompt as it is shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hpcllm.assistant.check import check_answer
from hpcllm.assistant.language import detect_language
from hpcllm.assistant.prompt import REFUSALS, build_messages
from hpcllm.assistant.understand import understand
from hpcllm.records import Passage
from hpcllm.training.records import Example

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from hpcllm.assistant.prompt import Prompt, PromptBudget
    from hpcllm.index.search import Searcher
    from hpcllm.training.records import Seed, Statement

SEARCHED = 8
"""Passages asked from the index for each question."""
JOINED_CHUNKS = 3
"""Most neighbouring chunks that are joined to a passage which the search did not find."""
SHUFFLED_SHARE = 0.2
"""Share of examples whose passages are in random order, against a habit of citing the first."""
FEWER_SHARE = 0.1
"""Share of examples with fewer passages than the budget allows."""

_SHOWN = re.compile(r"<passage>\n\[(\d+)\] (.*?)\n</passage>", re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_FACT = re.compile(
    r"(?<![\w.])\d[\d.,:]*\d(?:\s?[A-Za-z%]+)?|(?<![\w.])\d+\s?[A-Za-z%]+|(?<!\w)\d(?!\w)"
)


@dataclass(frozen=True, slots=True)
class Site:
    """An index to make examples from.

    Attributes:
        name: name of the site.
        searcher: searches its index.
        cluster: cluster assumed when a question names none.
        clusters: names of all clusters of the index.
    """

    name: str
    searcher: Searcher
    cluster: str | None = None
    clusters: tuple[str, ...] = ()

    def search(self, seed: Seed, question: str, k: int = SEARCHED) -> tuple[list[Passage], bool]:
        """Return the passages for a question and whether it leans on its history."""
        asked = understand(
            question,
            seed.history,
            cluster=seed.cluster or self.cluster,
            clusters=self.clusters,
            language=seed.language,
        )
        found = self.searcher.search(
            asked.standalone, k=k, cluster=asked.cluster, language=asked.language
        )
        return found, asked.is_follow_up


@dataclass(frozen=True, slots=True)
class Reader:
    """What the model that is trained can read.

    Attributes:
        budget: tokens and passages of a prompt.
        count_tokens: length of a text in its tokens.
    """

    budget: PromptBudget
    count_tokens: Callable[[str], int]


class Dropped(Exception):
    """A seed that gives no example; the message is the reason, for the data sheet."""


def assemble(seed: Seed, site: Site, reader: Reader, rng: random.Random, question: str) -> Example:
    """Make an example that has an answer.

    Args:
        seed: question and answer.
        site: where to search.
        reader: what the model can read.
        rng: source of chance.
        question: the seed's question as it is to be worded.

    Raises:
        Dropped: the answer's page is not in the index, or its lines are not in the prompt, or the
            answer fails the product's own checks.
    """
    found, leans = site.search(seed, question)
    try:
        prompt, completion = _answered(seed, site, found, reader, rng, question, leans, fewer=False)
    except Dropped:
        # Fewer passages leave more room for each.
        prompt, completion = _answered(seed, site, found, reader, rng, question, leans, fewer=True)
    shown = shown_passages(prompt)
    checks = check_answer(completion, shown, question=question)
    failed = [check.name for check in checks if not check.passed]
    if failed:
        raise Dropped(f"check of {failed[0]}")
    return _example(seed, seed.kind, question, prompt, completion)


def _answered(
    seed: Seed,
    site: Site,
    found: Sequence[Passage],
    reader: Reader,
    rng: random.Random,
    question: str,
    leans: bool,
    *,
    fewer: bool,
) -> tuple[Prompt, str]:
    most = 1 if fewer else reader.budget.passages
    passages = _with_answers(seed, site, found, most, rng, reader.budget.passages)
    prompt = _prompt(seed, question, passages, reader, leans)
    return prompt, render(seed, shown_passages(prompt))


def assemble_refusal(
    seed: Seed, site: Site, reader: Reader, rng: random.Random, question: str, kind: str
) -> Example:
    """Make an example whose passages do not answer the question.

    Args:
        seed: question and the answer that must not be there.
        site: where to search: the seed's own site (near misses: the page's section is left out)
            or another one (nothing relevant).
        reader: what the model can read.
        rng: source of chance.
        question: the seed's question as it is to be worded.
        kind: name of the kind of refusal.

    Raises:
        Dropped: nothing tells the answer apart, or the passages hold it.
    """
    facts = key_facts(seed)
    if seed.statements and not facts:
        raise Dropped("no fact tells the answer apart")
    found, leans = site.search(seed, question, SEARCHED * 2)
    kept = found
    if seed.statements:
        kept = [p for p in found if not (_is_section(p, seed) or _holds_any(p, facts))]
    if not kept:
        raise Dropped("no passage left for a refusal")
    if rng.random() < SHUFFLED_SHARE:
        rng.shuffle(kept)
    prompt = _prompt(seed, question, kept[: reader.budget.passages], reader, leans)
    language = detect_language(question)
    return _example(seed, kind, question, prompt, REFUSALS[language])


def key_facts(seed: Seed) -> set[str]:
    """Return the code and numbers of a seed's answer that its question does not have."""
    found: set[str] = set()
    for statement in seed.statements:
        found.update(match.strip() for match in _CODE.findall(statement.text))
        found.update(match.group() for match in _FACT.finditer(_CODE.sub(" ", statement.text)))
        found.update(line.strip() for line in statement.code.split("\n")[:1] if line.strip())
    asked = squash(seed.question)
    return {fact for fact in found if squash(fact) and squash(fact) not in asked}


def render(seed: Seed, shown: Sequence[Passage]) -> str:
    """Return the answer with the numbers of the passages that it stands in.

    Raises:
        Dropped: a statement's lines are in no passage as shown.
    """
    parts: list[str] = []
    numbers = [_number(statement, seed, shown) for statement in seed.statements]
    for statement, number, following in zip(
        seed.statements, numbers, [*numbers[1:], 0], strict=True
    ):
        mark = f" [{number}]" if number != following or statement.code else ""
        if statement.code:
            fence = f"```{statement.code_language}\n{statement.code}\n```"
            parts.append(f"{statement.text}{mark}\n{fence}" if statement.text else fence + mark)
        else:
            parts.append(f"{statement.text}{mark}")
    has_code = any(statement.code for statement in seed.statements)
    return ("\n\n" if has_code else " ").join(parts).replace("``` [", "```\n[").strip()


def _number(statement: Statement, seed: Seed, shown: Sequence[Passage]) -> int:
    lines = [squash(line) for line in statement.quote.split("\n") if squash(line)]
    source, path = statement.source or seed.source, statement.path or seed.path
    holders = [
        (passage.source == source and passage.path == path, -number, number)
        for number, passage in enumerate(shown, 1)
        if all(line in squash(passage.text) for line in lines)
    ]
    if not lines or not holders:
        raise Dropped("answer not in the prompt")
    return max(holders)[2]


def squash(text: str) -> str:
    """Return text for comparison: no spaces, emphasis, list marks or fences; lower case."""
    return re.sub(r"[\s*`>]+", "", text).lower()


def shown_passages(prompt: Prompt) -> list[Passage]:
    """Return the passages of a prompt with their texts as they were cut."""
    texts = {int(number): text for number, text in _SHOWN.findall(prompt.messages[-1].content)}
    return [
        replace(passage, text=texts.get(number, ""))
        for number, passage in enumerate(prompt.passages, 1)
    ]


def _with_answers(
    seed: Seed,
    site: Site,
    found: Sequence[Passage],
    wanted: int,
    rng: random.Random,
    most: int,
) -> list[Passage]:
    """Return ``wanted`` passages among which are those that answer, or as many as these are."""
    needed: list[Passage] = []
    for statement in seed.statements:
        if not any(_answers(passage, statement, seed) for passage in needed):
            needed.append(_passage_of(statement, seed, site, found))
    if len(needed) > most:
        raise Dropped("answer needs more passages than the budget has")
    limit = max(wanted, len(needed))
    if rng.random() < FEWER_SHARE:
        limit = rng.randint(len(needed), limit)
    chosen = list(found[:limit])
    missing = [p for p in needed if p not in chosen]
    for passage in missing:
        others = [p for p in chosen if p not in needed]
        if len(chosen) >= limit and others:
            chosen.remove(others[-1])
        chosen.insert(rng.randint(0, len(chosen)), passage)
    if rng.random() < SHUFFLED_SHARE:
        rng.shuffle(chosen)
    return chosen


def _answers(passage: Passage, statement: Statement, seed: Seed) -> bool:
    source, path = statement.source or seed.source, statement.path or seed.path
    lines = [squash(line) for line in statement.quote.split("\n") if squash(line)]
    text = squash(passage.text)
    return (passage.source, passage.path) == (source, path) and all(x in text for x in lines)


def _passage_of(statement: Statement, seed: Seed, site: Site, found: Sequence[Passage]) -> Passage:
    """Return the found passage that holds a statement, else one made of its chunk."""
    for passage in found:
        if _answers(passage, statement, seed):
            return passage
    source, path = statement.source or seed.source, statement.path or seed.path
    chunks = site.searcher.generation.store.chunks_of(source, path)
    for length in range(1, JOINED_CHUNKS + 1):
        for start in range(len(chunks) - length + 1):
            members = chunks[start : start + length]
            first = members[0]
            passage = Passage(
                rank=1,
                score=0.0,
                similarity=0.0,
                source=first.source,
                path=first.path,
                title=first.title,
                url=first.url,
                headings=first.headings,
                text="\n\n".join(chunk.text for chunk in members),
                chunk_ids=tuple(chunk.id for chunk in members),
                language=first.language,
                cluster=first.cluster,
                status=first.status,
                notice=first.notice,
            )
            if _answers(passage, statement, seed):
                return passage
    raise Dropped("answer in no chunk")


def _prompt(
    seed: Seed, question: str, passages: Sequence[Passage], reader: Reader, leans: bool
) -> Prompt:
    return build_messages(
        question,
        passages,
        history=seed.history if leans else (),
        budget=reader.budget,
        count_tokens=reader.count_tokens,
    )


def _example(seed: Seed, kind: str, question: str, prompt: Prompt, completion: str) -> Example:
    return Example(
        id=seed.id,
        kind=kind,
        source=seed.source,
        messages=prompt.messages,
        completion=completion,
        passages=tuple(passage.chunk_ids for passage in prompt.passages),
        metadata={
            "question": question,
            "path": seed.path,
            "language": seed.language,
            "prompt_tokens": prompt.tokens,
        },
    )


def _is_section(passage: Passage, seed: Seed) -> bool:
    return (passage.source, passage.path) == (seed.source, seed.path) and (
        not seed.topic or seed.topic in (*passage.headings, passage.title)
    )


def _holds_any(passage: Passage, facts: set[str]) -> bool:
    text = squash(f"{passage.title} {' '.join(passage.headings)} {passage.text}")
    return any(squash(fact) in text for fact in facts)
