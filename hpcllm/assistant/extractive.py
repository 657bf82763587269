"""Answer by quotation: the best sentences, table rows, option entries and code of the passages.

Role: the degraded mode when a model is missing, busy or failing its checks; the bar that a
generated answer has to clear; a system of every evaluation. Needs an embedder and no model.

How it chooses: every unit of the first passages is scored by a cross-encoder that reads it with
the question, or by similarity to the question where there is none; and by shared rare words, the
rank of its passage and whether it has the form asked for (a quantity, a command, an address).
Neighbours lend each other part of their score, since an answer often stands next to the sentence
that resembles the question. Units are taken greedily by score and
length, each paying for what it repeats (maximal marginal relevance, Carbonell and Goldstein 1998)
and none that says little new. Those of a passage are shown in reading order, the passage of the
best unit first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hpcllm.assistant.candidates import (
    Candidate,
    adjacent,
    candidates_of,
    echo_shares,
    focused,
    form_fit,
    lexical_scores,
    outputs,
    pasted,
    piece_of,
    readable,
    shared_words,
    stray_verdicts,
)
from hpcllm.assistant.language import subject_words
from hpcllm.records import Citation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hpcllm.assistant.units import Unit
    from hpcllm.index.embedders.base import Embedder
    from hpcllm.index.ranker import Ranker
    from hpcllm.records import Passage

    Likeness = Callable[[int], NDArray[np.float64]]
    """From the index of a unit to how far each unit repeats it, shape (units,)."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How a unit is scored. Similarity has the weight 1, all else is relative to it.

    Attributes:
        odds: for the ranker's log-odds, which stand in for similarity where there is one.
        words: for the share of the question's rare words that the unit holds.
        context: of a word that only the unit's heading or introduction holds.
        rank: lost from the first to the eighth passage.
        form: for having the form asked for.
        before: share of the score of the unit before that is added: an answer follows the
            sentence that resembles the question.
        after: share of the score of the unit after that is added.
        echo: lost by a unit that has no words beyond the question's, such as a quoted error.
        pasted: lost by a unit that says what the question says.
        output: lost by what a program prints.
        verdict: lost by a "yes" or "no" to another question.
        redundancy: for the similarity to what is already taken.
        told: share of its words in what is taken already from which a unit is left out.
        floor: share of the best unit's score below which a unit is not worth quoting.
        length: power of the length in words that a score is divided by.
        passages: passages looked at.
        candidates: units that are embedded, best by words and rank.
    """

    odds: float = 0.1
    words: float = 0.4
    context: float = 0.4
    rank: float = 0.15
    form: float = 0.1
    before: float = 0.2
    after: float = 0.1
    echo: float = 0.1
    pasted: float = 0.2
    output: float = 0.1
    verdict: float = 0.2
    redundancy: float = 0.2
    told: float = 0.7
    floor: float = 0.5
    length: float = 0.25
    passages: int = 5
    candidates: int = 32


DEFAULT_WEIGHTS = Weights()
RANKED_WEIGHTS = replace(DEFAULT_WEIGHTS, floor=0.4)
"""Those used with a ranker."""
LEAST = 0.05
"""Score of the least likely unit where a ranker scores; the others lie above it."""
EMBEDDED_WORDS = 28
"""Words of a unit that are embedded; the rest hardly moves the vector and costs time."""
CONTEXT_WORDS = 8
"""Words of a unit's context that are embedded before it, the last ones."""


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


def extract(
    question: str,
    passages: Sequence[Passage],
    *,
    embedder: Embedder,
    ranker: Ranker | None = None,
    words: int = 120,
    language: str = "en",
    said: str = "",
    numbers: Sequence[int] | None = None,
    weights: Weights | None = None,
) -> Extract:
    """Quote what answers ``question`` from ``passages``.

    Args:
        question: self-contained question.
        passages: what retrieval gave, best first; only the first few are read.
        embedder: the index's embedder; compares units where there is no ranker.
        ranker: reads each unit together with the question.
        words: longest answer in words, marks included.
        language: code of the reader's language; English is taken to be read by all.
        said: what the reader has been told already and need not be told again.
        numbers: number of each passage; None numbers those quoted from 1 as they are shown.
        weights: how units are scored; None takes those that suit the ranker or its absence.

    Returns:
        The answer, its sources as they are shown, and how well the best unit fits.
    """
    weights = weights or (RANKED_WEIGHTS if ranker else DEFAULT_WEIGHTS)
    asked = subject_words(question)
    candidates = readable(candidates_of(passages[: weights.passages]), passages, language)
    candidates = focused(question, candidates)
    if not candidates:
        return Extract("", (), 0.0)
    lexical = lexical_scores(asked, candidates, weights)
    kept = _prefilter(candidates, lexical, weights.candidates)
    candidates = [candidates[i] for i in kept]
    if ranker:
        likely, likeness = _by_ranker(question, candidates, passages, ranker, weights)
    else:
        likely, likeness = _by_similarity(question, candidates, embedder)
    scores = likely + lexical[kept] + weights.form * form_fit(question, candidates)
    scores = _lend(scores, candidates, weights) - _losses(asked, candidates, weights)
    if ranker:  # log-odds are negative for most: what counts is how far a unit is above the least
        scores += LEAST - scores.min()
    chosen = _choose(candidates, scores, likeness, subject_words(said), words, weights)
    text, citations = render(chosen, passages, numbers)
    return Extract(text, citations, float(scores.max()))


def _by_similarity(
    question: str, candidates: Sequence[Candidate], embedder: Embedder
) -> tuple[NDArray[np.float64], Likeness]:
    """Return similarities to the question, shape (candidates,), and how alike two units are."""
    vectors = embedder.embed([question, *map(_embedded_text, candidates)])  # (1 + n, dimension)
    units = vectors[1:]
    return (
        (units @ vectors[0]).astype(np.float64),
        lambda index: (units @ units[index]).astype(np.float64),
    )


def _by_ranker(
    question: str,
    candidates: Sequence[Candidate],
    passages: Sequence[Passage],
    ranker: Ranker,
    weights: Weights,
) -> tuple[NDArray[np.float64], Likeness]:
    """Return weighted log-odds, shape (candidates,), and how alike two units are."""
    pieces = [piece_of(candidate, passages) for candidate in candidates]
    odds = ranker.score(question, pieces).astype(np.float64)
    return weights.odds * odds, lambda index: shared_words(candidates, index)


def _prefilter(
    candidates: Sequence[Candidate], lexical: NDArray[np.float64], limit: int
) -> list[int]:
    """Return the indices of the best candidates and of those next to them, in reading order."""
    best = np.argsort(-lexical, kind="stable")
    kept: set[int] = set()
    for index in best:
        if len(kept) >= limit:
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


def _lend(
    scores: NDArray[np.float64], candidates: Sequence[Candidate], weights: Weights
) -> NDArray[np.float64]:
    """Add to each score shares of those of its neighbours in the same passage."""
    lent = scores.copy()
    for index in range(len(candidates) - 1):
        if adjacent(candidates[index], candidates[index + 1]):
            lent[index] += weights.after * scores[index + 1]
            lent[index + 1] += weights.before * scores[index]
    return lent


def _losses(
    asked: frozenset[str], candidates: Sequence[Candidate], weights: Weights
) -> NDArray[np.float64]:
    """Return what each unit loses for telling the reader nothing, shape (candidates,)."""
    return (
        weights.echo * echo_shares(asked, candidates)
        + weights.pasted * pasted(asked, candidates)
        + weights.output * outputs(candidates)
        + weights.verdict * stray_verdicts(asked, candidates)
    )


def _choose(
    candidates: Sequence[Candidate],
    scores: NDArray[np.float64],
    likeness: Likeness,
    said: frozenset[str],
    words: int,
    weights: Weights,
) -> list[Candidate]:
    """Return the units to quote, greedily within ``words``.

    What stands in the passage of the best unit comes first; within a passage, in reading order.
    """
    lengths = np.array([_cost(candidate.unit) for candidate in candidates], dtype=np.float64)
    repeated = np.array([len(c.words & said) / max(1, len(c.words)) for c in candidates])
    open_ = (scores >= weights.floor * scores.max()) & (repeated < 1)
    chosen: list[int] = []
    told: frozenset[str] = frozenset()
    while open_.any():
        value = (scores - weights.redundancy * repeated) / lengths**weights.length
        index = int(np.argmax(np.where(open_, value, -np.inf)))
        open_[index] = False
        own = candidates[index].words
        if chosen and len(own & told) >= weights.told * len(own):
            continue
        trial = sorted({*chosen, *_with_introduced(candidates, index)})
        if len(_text_of([candidates[i] for i in trial]).split()) > words:
            continue
        for new in set(trial) - set(chosen):
            open_[new] = False
            repeated = np.maximum(repeated, likeness(new))
            told |= candidates[new].words
        chosen = trial
    return [candidates[i] for i in _best_passage_first(chosen, candidates, scores)]


def _best_passage_first(
    chosen: Sequence[int], candidates: Sequence[Candidate], scores: NDArray[np.float64]
) -> list[int]:
    best: dict[int, float] = {}
    for i in chosen:
        passage = candidates[i].passage
        best[passage] = max(best.get(passage, -np.inf), scores[i])
    return sorted(chosen, key=lambda i: (-best[candidates[i].passage], candidates[i].passage, i))


def _cost(unit: Unit) -> int:
    """Return the words that a unit takes with its marks when it stands alone."""
    return unit.words + (4 if unit.kind == "code" else 1) + len(unit.lead.split())


def _with_introduced(candidates: Sequence[Candidate], index: int) -> list[int]:
    """Return the unit and, where it ends in a colon, what it introduces."""
    units = [index]
    while candidates[units[-1]].unit.text.endswith(":"):
        following = units[-1] + 1
        if following >= len(candidates) or not adjacent(
            candidates[units[-1]], candidates[following]
        ):
            break
        units.append(following)
    return units


def _text_of(chosen: Sequence[Candidate], numbers: Sequence[int] | None = None) -> str:
    order = _numbered(chosen, numbers)
    return "\n\n".join(_run_text(run, order[run[0].passage]) for run in _runs(chosen))


def _numbered(chosen: Sequence[Candidate], numbers: Sequence[int] | None) -> dict[int, int]:
    """Return the number of each quoted passage, by its index, as they are shown."""
    quoted = dict.fromkeys(candidate.passage for candidate in chosen)
    if numbers is None:
        return {passage: number for number, passage in enumerate(quoted, 1)}
    return {passage: numbers[passage] for passage in quoted}


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
    chosen: Sequence[Candidate],
    passages: Sequence[Passage],
    numbers: Sequence[int] | None = None,
) -> tuple[str, tuple[Citation, ...]]:
    """Return the answer's text and its sources; see :func:`extract` for their numbers."""
    order = _numbered(chosen, numbers)
    by_passage: dict[int, list[Unit]] = {}
    for candidate in chosen:
        by_passage.setdefault(candidate.passage, []).append(candidate.unit)
    citations = tuple(
        cite(passages[index], order[index], "\n".join(dict.fromkeys(u.quote for u in units)))
        for index, units in by_passage.items()
    )
    return _text_of(chosen, numbers), citations


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
