"""Make a data set: mine, word, assemble, refuse, combine, decontaminate, write.

Role: behind ``hpcllm dataset build``. The same sites, questions and seed give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import logging
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hpcllm.errors import TrainingError
from hpcllm.records import Turn
from hpcllm.training.assembly import Dropped, Reader, Site, assemble, assemble_refusal, key_facts
from hpcllm.training.handwritten import HandwrittenQuestion, resolve
from hpcllm.training.mining import MINERS
from hpcllm.training.mining.facts import mine_facts
from hpcllm.training.records import Example, Seed
from hpcllm.training.sections import sections_of
from hpcllm.training.wording import templates, with_noise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hpcllm.records import Document

logger = logging.getLogger(__name__)

REFUSAL_EVERY = 8
"""One example in so many has no answer in its passages."""
NEAR_SHARE = 0.6
"""Share of refusals that are near misses; the others have nothing relevant."""
COMBINED_SHARE = 0.06
"""Share of examples that ask two things at once."""
FOLLOW_UP_SHARE = 0.05
"""Share of examples with an earlier turn, besides those that tables give."""
KIND_SHARE = 0.12
"""Largest share of one kind among a site's mined examples."""
DATA_FORMAT = 1
"""Number of the form of a line; raised when its fields change."""
SITE_BOUND = frozenset(
    {"table_value", "table_reverse", "site_fact", "value", "passive", "faq", "permission", "error"}
)
"""Kinds whose answers belong to one site, so that another site's pages do not hold them."""


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """How much of what.

    Attributes:
        size: examples in all, hand-written ones included.
        seed: source of all chance.
        hand_repeats: times that each hand-written question comes, with other noise and passages.
    """

    size: int = 10_000
    seed: int = 1
    hand_repeats: int = 2


@dataclass(frozen=True, slots=True)
class SiteMaterial:
    """A site and what can be made of it.

    Attributes:
        site: its index.
        weight: share of the mined examples, relative to the other sites.
        facts: its table of site facts, or empty.
    """

    site: Site
    weight: float = 1.0
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Tally:
    """What a build counted, for the data sheet.

    Attributes:
        mined: seeds found by kind.
        dropped: seeds that gave no example, by reason.
        skipped: hand-written questions that could not be used, by reason.
    """

    mined: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)


def build_examples(
    materials: Sequence[SiteMaterial],
    questions: Sequence[HandwrittenQuestion],
    reader: Reader,
    settings: BuildSettings,
    *,
    taught: Sequence[Seed] = (),
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[Example], Tally]:
    """Make the examples of a data set.

    Args:
        materials: sites with their indexes.
        questions: the hand-written part.
        reader: what the model that is trained can read.
        settings: how much of what.
        taught: further seeds, such as a teacher's.
        progress: called with examples made since the last call and all that are wanted.

    Returns:
        The examples in random order, and what was counted.

    Raises:
        TrainingError: no site gives any example.
    """
    tally = Tally()
    report = progress or (lambda advance, total: None)
    builder = _Builder(materials, reader, settings, tally, lambda: report(1, settings.size))
    examples = builder.handwritten(questions)
    examples += builder.taught(taught)
    room = max(0, settings.size - len(examples))
    weights = sum(material.weight for material in materials) or 1.0
    for material in materials:
        examples += builder.mined(material, round(room * material.weight / weights))
    if not examples:
        raise TrainingError(
            "no examples could be made: the indexes hold no page that a rule fits, and there are "
            "no hand-written questions. Build an index first: hpcllm ingest"
        )
    unique = {(e.messages[-1].content, e.completion): e for e in examples}
    ordered = sorted(unique.values(), key=lambda e: (e.id, e.kind, e.metadata["question"]))
    random.Random(settings.seed).shuffle(ordered)
    return ordered, tally


class _Builder:
    """One build."""

    def __init__(
        self,
        materials: Sequence[SiteMaterial],
        reader: Reader,
        settings: BuildSettings,
        tally: Tally,
        advance: Callable[[], None],
    ) -> None:
        self._materials = materials
        self._reader = reader
        self._settings = settings
        self._tally = tally
        self._advance = advance
        self._made = 0
        self._refused = 0
        self._sites = {
            source: material.site
            for material in materials
            for source, _ in material.site.searcher.generation.store.pages()
        }

    def handwritten(self, questions: Sequence[HandwrittenQuestion]) -> list[Example]:
        """Return the examples of the hand-written part, each ``hand_repeats`` times."""
        found: list[Example] = []
        for question in questions:
            site = self._sites.get(question.source)
            if site is None:
                self._tally.skipped[f"source {question.source} is not indexed"] += 1
                continue
            document = site.searcher.generation.document(question.source, question.path)
            try:
                seed = resolve(question, document)
            except Dropped as exc:
                self._tally.skipped[str(exc)] += 1
                logger.info("%s: %s", question.id, exc)
                continue
            for repeat in range(self._settings.hand_repeats):
                found += self._try(partial(self._natural, seed, site, repeat))
        return found

    def taught(self, seeds: Sequence[Seed]) -> list[Example]:
        """Return the examples of further seeds."""
        found: list[Example] = []
        for seed in seeds:
            site = self._sites.get(seed.source)
            if site is None:
                self._tally.skipped[f"source {seed.source} is not indexed"] += 1
            else:
                found += self._try(partial(self._natural, seed, site, 0))
        return found

    def _natural(self, seed: Seed, site: Site, repeat: int) -> Example:
        """A question that a person wrote stays as it is the first time."""
        rng = self._rng(seed.id, repeat)
        question = seed.question if repeat == 0 else with_noise(seed.question, rng, seed.language)
        if seed.statements:
            return assemble(seed, site, self._reader, rng, question)
        return assemble_refusal(seed, site, self._reader, rng, question, "refusal_hand")

    def mined(self, material: SiteMaterial, wanted: int) -> list[Example]:
        """Return about ``wanted`` examples of one site, no kind much more often than others."""
        seeds = list(self._seeds(material))
        self._tally.mined.update(seed.kind for seed in seeds)
        queue = _balanced(seeds, self._rng(material.site.name, 0))
        by_page: dict[str, list[Seed]] = {}
        for seed in seeds:
            by_page.setdefault(seed.path, []).append(seed)
        limit = max(1, round(wanted * KIND_SHARE))
        counts: Counter[str] = Counter()
        found: list[Example] = []
        spare: list[tuple[int, Seed]] = []
        for number, seed in enumerate(queue):
            if len(found) >= wanted:
                return found
            if counts[seed.kind] >= limit:
                spare.append((number, seed))
                continue
            counts[seed.kind] += 1
            found += self._try(partial(self._mined_one, seed, number, material, by_page[seed.path]))
        for number, seed in spare:  # a small site has few kinds: better more of one than too few
            if len(found) >= wanted:
                break
            found += self._try(partial(self._mined_one, seed, number, material, by_page[seed.path]))
        return found

    def _mined_one(
        self, seed: Seed, number: int, material: SiteMaterial, page: Sequence[Seed]
    ) -> Example:
        rng = self._rng(seed.id, number)
        question = seed.question if seed.history else with_noise(seed.question, rng, seed.language)
        if self._refused * REFUSAL_EVERY < self._made and key_facts(seed):
            return self._refusal(seed, material, rng, question)
        draw = rng.random()
        if draw < COMBINED_SHARE:
            seed = combined(seed, rng.choice(page), rng)
            return assemble(seed, material.site, self._reader, rng, seed.question)
        if draw < COMBINED_SHARE + FOLLOW_UP_SHARE and not seed.history:
            seed = following(seed, rng.choice(page), rng)
            question = seed.question
        return assemble(seed, material.site, self._reader, rng, question)

    def _refusal(
        self, seed: Seed, material: SiteMaterial, rng: random.Random, question: str
    ) -> Example:
        others = [m.site for m in self._materials if m.site is not material.site]
        near = rng.random() < NEAR_SHARE or not others or seed.kind not in SITE_BOUND
        site = material.site if near else rng.choice(others)
        kind = "refusal_near" if near else "refusal_elsewhere"
        return assemble_refusal(seed, site, self._reader, rng, question, kind)

    def _seeds(self, material: SiteMaterial) -> Iterator[Seed]:
        documents = list(documents_of(material.site))
        rng = self._rng(f"mine {material.site.name}", 0)
        for document in documents:
            for section in sections_of(document):
                for miner in MINERS.values():
                    yield from miner(section, rng)
        if material.facts:
            yield from mine_facts(material.facts, documents, rng)

    def _try(self, make: Callable[[], Example]) -> list[Example]:
        try:
            example = make()
        except Dropped as exc:
            self._tally.dropped[str(exc)] += 1
            return []
        self._made += 1
        self._refused += example.kind.startswith("refusal")
        self._advance()
        return [example]

    def _rng(self, name: str, number: int) -> random.Random:
        text = f"{self._settings.seed}/{name}/{number}"
        return random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))


def documents_of(site: Site) -> Iterator[Document]:
    """Yield the pages of a site that are worth learning from, in the order of its index."""
    generation = site.searcher.generation
    for source, path in generation.store.pages():
        document = generation.document(source, path)
        if document is not None and document.status == "current":
            yield document


def _balanced(seeds: Sequence[Seed], rng: random.Random) -> list[Seed]:
    """Return the seeds so that kinds alternate; within a kind in random order."""
    kinds: dict[str, list[Seed]] = {}
    for seed in seeds:
        kinds.setdefault(seed.kind, []).append(seed)
    for group in kinds.values():
        rng.shuffle(group)
    ordered: list[Seed] = []
    while kinds:
        ordered.extend(kinds[kind].pop() for kind in sorted(kinds))
        kinds = {kind: group for kind, group in kinds.items() if group}
    return ordered


def combined(first: Seed, second: Seed, rng: random.Random) -> Seed:
    """Return one seed that asks for both.

    Raises:
        Dropped: they are the same, or one has a history or a block of code.
    """
    pair = (first, second)
    if first.id == second.id or any(s.history or any(t.code for t in s.statements) for s in pair):
        raise Dropped("no pair")
    second_question = second.question[:1].lower() + second.question[1:]
    question = rng.choice(templates(first.language, "JOINS")).format(
        first=_ended(first.question), second=_ended(second_question)
    )
    return replace(
        first,
        kind="combined",
        question=question,
        statements=(*first.statements, *second.statements),
    )


def following(seed: Seed, earlier: Seed, rng: random.Random) -> Seed:
    """Return the seed as the second turn of a conversation that began with ``earlier``.

    Raises:
        Dropped: they are the same, or the earlier one has a history itself.
    """
    if seed.id == earlier.id or earlier.history:
        raise Dropped("no pair")
    answer = " ".join(f"{statement.text} [1]" for statement in earlier.statements)
    history = (Turn("user", earlier.question), Turn("assistant", answer))
    question = rng.choice(templates(seed.language, "NEXT_QUESTIONS")).format(question=seed.question)
    return replace(seed, kind="follow_up", question=question, history=history)


def _ended(question: str) -> str:
    return question if question.rstrip().endswith((".", "?", "!")) else f"{question}?"


def write_examples(examples: Iterable[Example], path: Path) -> str:
    """Write a data file, complete or not at all.

    Returns:
        Its SHA-256 in hex.

    Raises:
        TrainingError: it cannot be written.
    """
    lines = [json.dumps(e.to_json(), ensure_ascii=False, sort_keys=True) for e in examples]
    data = "".join(f"{line}\n" for line in lines).encode()
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as exc:
        raise TrainingError(f"{path} cannot be written: {exc.strerror or exc}") from exc
    finally:
        partial.unlink(missing_ok=True)
    return hashlib.sha256(data).hexdigest()


def read_examples(path: Path) -> list[dict[str, Any]]:
    """Read a data file.

    Raises:
        TrainingError: it cannot be read, or lines are wrong; all of them are listed.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError as exc:
        raise TrainingError(f"{path} does not exist. Make it with: hpcllm dataset build") from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise TrainingError(f"{path} cannot be read: {exc}") from exc
    rows, problems = [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            rows.append(_checked_row(json.loads(line)))
        except ValueError as exc:
            problems.append(f"line {number}: {exc}")
    if problems:
        shown = "\n  - ".join(problems[:20])
        raise TrainingError(f"{path} has {len(problems)} line(s) that are no example:\n  - {shown}")
    if not rows:
        raise TrainingError(f"{path} holds no examples. Make it with: hpcllm dataset build")
    return rows


def _checked_row(row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ValueError(f"expected a JSON object, got {type(row).__name__}")
    if not isinstance(row.get("completion"), str) or not row["completion"].strip():
        raise ValueError("'completion' is missing or empty: every example needs an answer")
    messages = row.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ValueError("'messages' must be a list that is not empty")
    for message in messages:
        if not isinstance(message, dict) or not {"role", "content"} <= set(message):
            raise ValueError("each message needs 'role' and 'content'")
    return row
