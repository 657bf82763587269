"""Answer by quotation: the best sentences, table rows, option entries and code of the passages.

Role: the degraded mode when a model is missing, busy or failing its checks; the bar that a
generated answer has to clear; a system of every evaluation. Needs an embedder and no model.

How it chooses: every unit of the first passages is scored by similarity to the question, shared
rare words, the rank of its passage and whether it has the form asked for (a quantity, a command,
an address). Neighbours lend each other part of their score, since an answer often stands next to
the sentence that resembles the question. Units are taken greedily by score and length, each
paying for what it repeats (maximal marginal relevance, Carbonell and Goldstein 1998) and none
whose words one unit taken before has all, and shown in reading order.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hpcllm.assistant.language import subject_words
from hpcllm.assistant.units import Unit, split_units
from hpcllm.records import Citation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hpcllm.index.embedders.base import Embedder
    from hpcllm.records import Passage


@dataclass(frozen=True, slots=True)
class Weights:
    """How a unit is scored. Similarity has the weight 1, all else is relative to it.

    Attributes:
        words: for the share of the question's rare words that the unit holds.
        context: of a word that only the unit's heading or introduction holds.
        rank: lost from the first to the eighth passage.
        form: for having the form asked for.
        before: share of the score of the unit before that is added: an answer follows the
            sentence that resembles the question.
        after: share of the score of the unit after that is added.
        echo: lost by a unit that has no words beyond the question's, such as a quoted error.
        redundancy: for the similarity to what is already taken.
        floor: share of the best unit's score below which a unit is not worth quoting.
        length: power of the length in words that a score is divided by.
        passages: passages looked at.
        candidates: units that are embedded, best by words and rank.
    """

    words: float = 0.4
    context: float = 0.4
    rank: float = 0.15
    form: float = 0.1
    before: float = 0.2
    after: float = 0.1
    echo: float = 0.1
    redundancy: float = 0.2
    floor: float = 0.5
    length: float = 0.25
    passages: int = 5
    candidates: int = 32


DEFAULT_WEIGHTS = Weights()
EMBEDDED_WORDS = 28
"""Words of a unit that are embedded; the rest hardly moves the vector and costs time."""
CONTEXT_WORDS = 8
"""Words of a unit's context that are embedded before it, the last ones."""
MINIMUM_WORDS = 3
"""Shorter sentences say nothing by themselves."""

_QUANTITY_ASKED = re.compile(
    r"\b(how (many|much|long|large|big|often|fast|old)|max\w*|min\w*|limits?|size|default|price|"
    r"costs?|number|quota|when|date|until|longest|shortest|largest|duration|rate|version\w*|"
    r"quant[ao]s?|máxim\w*|mínim\w*|limites?|tamanho|padrão|preço|custa|número|quando|até|"
    r"duração|prazo|vers(ão|ões))\b",
    re.IGNORECASE,
)
_COMMAND_ASKED = re.compile(
    r"\b(how (do|can|to|should|would)|commands?|options?|flags?|switch|parameters?|settings?|"
    r"syntax|script|modules?|variables?|run|launch|load|submit|install|fix|error|fails?|"
    r"como|comandos?|opç(ão|ões)|parâmetros?|variáve(l|is)|módulos?|rodar|erro|carregar)\b",
    re.IGNORECASE,
)
_PLACE_ASKED = re.compile(
    r"\b(where|address|url|link|e-?mail|host\w*|contact|who|path|director(y|ies)|folder|file|page|"
    r"onde|endereço|contato|quem|caminho|diretório|pasta|arquivo|página)\b",
    re.IGNORECASE,
)
_QUANTITY = re.compile(r"\d")
_COMMAND = re.compile(r"`[^`]+`|(?<!\w)--?[A-Za-z]|#SBATCH|\b\w+=\S|\b[A-Z]+_[A-Z_]+\b")
_PLACE = re.compile(
    r"https?://|\S@\S+\.\w|(?<!\w)[~$]?/?\w[\w.$-]*/[\w.$-]+|\b[\w-]+(\.[\w-]+){2,}\b"
)


@dataclass(frozen=True, slots=True)
class Extract:
    """An extractive answer.

    Attributes:
        text: Markdown with ``[n]`` marks, empty when nothing could be quoted.
        citations: sources in order of their numbers, with the quoted lines.
        confidence: score of the best unit, comparable between questions, about 0 to 2.
    """

    text: str
    citations: tuple[Citation, ...]
    confidence: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A unit with the index of its passage and, once scored, its score and vector.

    Attributes:
        passage: index into the passages, from 0.
        unit: what can be quoted.
        words: lexical tokens of what is shown.
        context: lexical tokens of its context alone.
    """

    passage: int
    unit: Unit
    words: frozenset[str]
    context: frozenset[str]


def extract(
    question: str,
    passages: Sequence[Passage],
    *,
    embedder: Embedder,
    words: int = 120,
    weights: Weights = DEFAULT_WEIGHTS,
) -> Extract:
    """Quote what answers ``question`` from ``passages``.

    Args:
        question: self-contained question.
        passages: what retrieval gave, best first; only the first few are read.
        embedder: the index's embedder.
        words: longest answer in words, marks included.
        weights: how units are scored.

    Returns:
        The answer, its sources in reading order, and how well the best unit fits.
    """
    asked = subject_words(question)
    candidates = _candidates(passages[: weights.passages])
    if not candidates:
        return Extract("", (), 0.0)
    lexical = _lexical_scores(asked, candidates, weights)
    kept = _prefilter(candidates, lexical, weights)
    candidates, lexical = [candidates[i] for i in kept], lexical[kept]
    vectors = embedder.embed([question, *map(_embedded_text, candidates)])  # (1 + n, dimension)
    scores = (
        (vectors[1:] @ vectors[0]).astype(np.float64)
        + lexical
        + _form(question, candidates, weights)
    )
    scores = _lend(scores, candidates, weights) - weights.echo * _echo(asked, candidates)
    chosen = _choose(candidates, scores, vectors[1:], words, weights)
    text, citations = render(chosen, passages)
    return Extract(text, citations, float(scores.max()))


def _candidates(passages: Sequence[Passage]) -> list[Candidate]:
    found: list[Candidate] = []
    seen: set[str] = set()
    for index, passage in enumerate(passages):
        for unit in split_units(passage.text, passage.headings or (passage.title,)):
            known = f"{unit.lead}\n{unit.text}"
            if known in seen or (
                unit.kind == "sentence" and not unit.lead and unit.words < MINIMUM_WORDS
            ):
                continue
            seen.add(known)
            shown = subject_words(f"{unit.lead} {unit.text}")
            found.append(Candidate(index, unit, shown, subject_words(unit.context) - shown))
    return found


def _lexical_scores(
    asked: frozenset[str], candidates: Sequence[Candidate], weights: Weights
) -> NDArray[np.float64]:
    """Return shared rare words and passage rank, weighted: shape (candidates,)."""
    count = Counter(word for c in candidates for word in (c.words | c.context) & asked)
    rarity = {word: math.log(1 + len(candidates) / n) for word, n in count.items()}
    whole = sum(rarity.values()) or 1.0
    scores = np.empty(len(candidates))
    for index, candidate in enumerate(candidates):
        own = sum(rarity[word] for word in candidate.words & asked)
        around = sum(rarity[word] for word in candidate.context & asked)
        scores[index] = weights.words * (own + weights.context * around) / whole
        scores[index] -= weights.rank * candidate.passage / 7
    return scores


def _prefilter(
    candidates: Sequence[Candidate], lexical: NDArray[np.float64], weights: Weights
) -> list[int]:
    """Return the indices of the best candidates and of those next to them, in reading order."""
    best = np.argsort(-lexical, kind="stable")
    kept: set[int] = set()
    for index in best:
        if len(kept) >= weights.candidates:
            break
        kept.add(int(index))
        following = int(index) + 1
        if (
            following < len(candidates)
            and candidates[following].passage == candidates[index].passage
        ):
            kept.add(following)
    return sorted(kept)


def _embedded_text(candidate: Candidate) -> str:
    unit = candidate.unit
    context = unit.context.split()[-CONTEXT_WORDS:]
    return " ".join([*context, *f"{unit.lead} {unit.text}".split()[:EMBEDDED_WORDS]])


def _form(question: str, candidates: Sequence[Candidate], weights: Weights) -> NDArray[np.float64]:
    wanted = [
        has
        for asks, has in (
            (_QUANTITY_ASKED, _QUANTITY),
            (_COMMAND_ASKED, _COMMAND),
            (_PLACE_ASKED, _PLACE),
        )
        if asks.search(question)
    ]
    fits = [
        any(
            has.search(f"{c.unit.lead} {c.unit.text}")
            or (has is _COMMAND and c.unit.kind == "code")
            for has in wanted
        )
        for c in candidates
    ]
    return weights.form * np.array(fits, dtype=np.float64)


def _lend(
    scores: NDArray[np.float64], candidates: Sequence[Candidate], weights: Weights
) -> NDArray[np.float64]:
    """Add to each score shares of those of its neighbours in the same passage."""
    lent = scores.copy()
    for index in range(len(candidates) - 1):
        if _adjacent(candidates[index], candidates[index + 1]):
            lent[index] += weights.after * scores[index + 1]
            lent[index + 1] += weights.before * scores[index]
    return lent


def _adjacent(left: Candidate, right: Candidate) -> bool:
    return left.passage == right.passage and right.unit.position == left.unit.position + 1


def _echo(asked: frozenset[str], candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """Return the share of each unit's words that the question has already."""
    return np.array([len(c.words & asked) / max(1, len(c.words)) for c in candidates])


def _choose(
    candidates: Sequence[Candidate],
    scores: NDArray[np.float64],
    vectors: NDArray[np.float32],
    words: int,
    weights: Weights,
) -> list[Candidate]:
    """Return the units to quote, in reading order, greedily within ``words``."""
    lengths = np.array([_cost(candidate.unit) for candidate in candidates], dtype=np.float64)
    repeated = np.zeros(len(candidates))
    open_ = scores >= weights.floor * scores.max()
    chosen: list[int] = []
    while open_.any():
        value = (scores - weights.redundancy * repeated) / lengths**weights.length
        index = int(np.argmax(np.where(open_, value, -np.inf)))
        open_[index] = False
        if any(candidates[index].words <= candidates[i].words for i in chosen):
            continue
        trial = sorted({*chosen, *_with_introduced(candidates, index)})
        if len(_text_of([candidates[i] for i in trial]).split()) > words:
            continue
        for new in set(trial) - set(chosen):
            open_[new] = False
            repeated = np.maximum(repeated, vectors @ vectors[new])
        chosen = trial
    return [candidates[i] for i in chosen]


def _cost(unit: Unit) -> int:
    """Return the words that a unit takes with its marks when it stands alone."""
    return unit.words + (4 if unit.kind == "code" else 1) + len(unit.lead.split())


def _with_introduced(candidates: Sequence[Candidate], index: int) -> list[int]:
    """Return the unit and, where it ends in a colon, what it introduces."""
    units = [index]
    while candidates[units[-1]].unit.text.endswith(":"):
        following = units[-1] + 1
        if following >= len(candidates) or not _adjacent(
            candidates[units[-1]], candidates[following]
        ):
            break
        units.append(following)
    return units


def _text_of(chosen: Sequence[Candidate]) -> str:
    order = {passage: n for n, passage in enumerate(dict.fromkeys(c.passage for c in chosen), 1)}
    return "\n\n".join(_run_text(run, order[run[0].passage]) for run in _runs(chosen))


def _runs(chosen: Sequence[Candidate]) -> list[list[Candidate]]:
    """Group what stands in the same block and is shown in the same way."""
    runs: list[list[Candidate]] = []
    for candidate in chosen:
        last = runs[-1][-1] if runs else None
        if last and _shares_run(last, candidate):
            runs[-1].append(candidate)
        else:
            runs.append([candidate])
    return runs


def _shares_run(left: Candidate, right: Candidate) -> bool:
    same = (left.passage, left.unit.block, left.unit.kind, left.unit.lead)
    return same == (right.passage, right.unit.block, right.unit.kind, right.unit.lead)


def _run_text(run: Sequence[Candidate], number: int) -> str:
    units = [candidate.unit for candidate in run]
    first = units[0]
    lead = f"{_as_code(first.lead)}: " if first.lead else ""
    if first.kind == "code":
        code = "\n".join(unit.text for unit in units)
        fence = "````" if "```" in code else "```"
        return f"{lead}\n{fence}{first.language}\n{code}\n{fence}\n[{number}]".strip()
    if first.kind == "row":
        return "\n".join(f"- {lead}{unit.text} [{number}]" for unit in units)
    if first.item >= 0:
        items: dict[int, list[str]] = {}
        for unit in units:
            items.setdefault(unit.item, []).append(unit.text)
        return "\n".join(f"- {lead}{' '.join(texts)} [{number}]" for texts in items.values())
    return f"{lead}{' '.join(unit.text for unit in units)} [{number}]"


def _as_code(term: str) -> str:
    return term if "`" in term or " " in term.replace(", ", "") else f"`{term}`"


def render(
    chosen: Sequence[Candidate], passages: Sequence[Passage]
) -> tuple[str, tuple[Citation, ...]]:
    """Return the answer's text and its sources, numbered in the order in which they appear."""
    by_passage: dict[int, list[Unit]] = {}
    for candidate in chosen:
        by_passage.setdefault(candidate.passage, []).append(candidate.unit)
    citations = tuple(
        cite(passages[index], number, "\n".join(dict.fromkeys(u.quote for u in units)))
        for number, (index, units) in enumerate(by_passage.items(), 1)
    )
    return _text_of(chosen), citations


def cite(passage: Passage, number: int, quote: str) -> Citation:
    """Return the citation of ``passage`` under ``number``."""
    return Citation(
        number=number,
        passage_rank=passage.rank,
        source=passage.source,
        path=passage.path,
        title=passage.title,
        url=passage.url,
        headings=passage.headings,
        quote=quote,
        notice=passage.notice,
        status=passage.status,
    )
