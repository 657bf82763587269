"""Training examples become lists of pieces to rank, with how much of the answer each holds.

Role: first step of training the ranker. Nobody marked which sentence answers a question; but the
answer was written from the page, so the piece that shares its rare words is the one. Pieces come
from the passages that the product itself finds, so that what is learnt is what will be asked.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpcllm.assistant.candidates import Candidate, candidates_of, lexical_scores, piece_of
from hpcllm.assistant.extractive import DEFAULT_WEIGHTS
from hpcllm.assistant.language import subject_words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from hpcllm.index.ranker import Piece
    from hpcllm.records import Passage

    Search = Callable[[str], Sequence[Passage]]
    """From a question to the passages found, best first."""

PASSAGES = 6
"""Passages whose pieces are looked at."""
FEWEST_PIECES = 6
"""A question with fewer is left out."""
ANSWERS = 0.4
"""Share of the answer's words, weighted by rarity, from which a piece counts as an answer."""
OTHER_PAGE = 0.75
"""What the share of a piece of another page is multiplied by: it may say it of something else."""
ASKED_WORD = 0.3
"""Weight of an answer's word that stands in the question too."""
MOST_ANSWERS, HARD, RANDOM, LONGEST = 3, 5, 3, 9
"""Of a list: most answers, look-alikes of the fourteen that share most words, others, all."""
HARD_AMONG = 14
LONGEST_REFUSAL = 5
"""Pieces of a list without an answer."""

_MARK = re.compile(r"\[\d+\]")
_WITH_HISTORY = frozenset({"follow_up", "table_follow_up", "hand_follow_up"})


@dataclass(frozen=True, slots=True)
class RankedList:
    """A question and pieces to rank.

    Attributes:
        id: id of the example.
        kind: its kind.
        source: its source.
        question: as asked.
        pieces: what to rank.
        shares: share of the answer's words that each holds, 0 to 1.
    """

    id: str
    kind: str
    source: str
    question: str
    pieces: tuple[Piece, ...]
    shares: tuple[float, ...]

    @property
    def answered(self) -> bool:
        """Whether one of the pieces counts as an answer."""
        return max(self.shares) >= ANSWERS


def build_lists(
    rows: Iterable[Mapping[str, Any]], searches: Mapping[str, Search], *, seed: int
) -> list[RankedList]:
    """Turn lines of a data set into lists to rank.

    Args:
        rows: examples; follow-ups are left out, for they cannot be searched for by themselves.
        searches: the search of each source's index; rows of other sources are left out.
        seed: decides which look-alikes a list gets.

    Returns:
        One list for each example whose answer, if it has one, is among the pieces found.
    """
    chance = random.Random(seed)
    lists = []
    for row in rows:
        search = searches.get(row["source"])
        if search is None or row["kind"] in _WITH_HISTORY:
            continue
        found = _list_of(row, search(row["question"])[:PASSAGES], chance)
        if found:
            lists.append(found)
    return lists


def some_of_each_source(
    rows: Sequence[Mapping[str, Any]], *, most_mined: int, leave_out: Collection[str]
) -> list[Mapping[str, Any]]:
    """Return all hand-written examples and refusals, and some mined ones of each source.

    Args:
        rows: a data set's lines.
        most_mined: most mined examples of one source.
        leave_out: sources of which nothing is returned.
    """
    count: Counter[str] = Counter()
    kept = []
    for row in rows:
        mined = not row["kind"].startswith(("hand_", "refusal"))
        count[row["source"]] += mined
        if row["source"] not in leave_out and not (mined and count[row["source"]] > most_mined):
            kept.append(row)
    return kept


def _list_of(
    row: Mapping[str, Any], passages: Sequence[Passage], chance: random.Random
) -> RankedList | None:
    candidates = candidates_of(passages)
    if len(candidates) < FEWEST_PIECES:
        return None
    refused = row["kind"].startswith("refusal")
    asked = subject_words(row["question"])
    shares = [0.0] * len(candidates)
    if not refused:
        shares = _shares(row, asked, candidates, passages)
        if max(shares) < ANSWERS:
            return None
    lexical = lexical_scores(asked, candidates, DEFAULT_WEIGHTS)
    kept = _chosen(shares, lexical.tolist(), chance)[: LONGEST_REFUSAL if refused else LONGEST]
    pieces = tuple(piece_of(candidates[n], passages) for n in kept)
    return RankedList(
        row["id"],
        row["kind"],
        row["source"],
        row["question"],
        pieces,
        tuple(round(shares[n], 3) for n in kept),
    )


def _shares(
    row: Mapping[str, Any],
    asked: frozenset[str],
    candidates: Sequence[Candidate],
    passages: Sequence[Passage],
) -> list[float]:
    """Return the share of the answer's words, weighted by rarity, that each candidate holds."""
    answer = subject_words(_MARK.sub("", row["completion"]))
    count = Counter(word for candidate in candidates for word in candidate.words)
    rarity = {word: math.log(1 + len(candidates) / (1 + count[word])) for word in answer}
    for word in answer & asked:
        rarity[word] *= ASKED_WORD
    whole = sum(rarity.values()) or 1.0
    shares = []
    for candidate in candidates:
        share = sum(rarity[word] for word in answer & candidate.words) / whole
        here = passages[candidate.passage].path == row["path"]
        shares.append(share if here else share * OTHER_PAGE)
    return shares


def _chosen(shares: Sequence[float], lexical: Sequence[float], chance: random.Random) -> list[int]:
    """Return the numbers of answers, of look-alikes that share words, and of some others."""
    best = sorted(range(len(shares)), key=lambda n: -shares[n])[:MOST_ANSWERS]
    answers = [n for n in best if shares[n] >= ANSWERS]
    others = [n for n in sorted(range(len(shares)), key=lambda n: -lexical[n]) if n not in answers]
    hard, rest = others[:HARD_AMONG], others[HARD_AMONG:]
    chance.shuffle(hard)
    chance.shuffle(rest)
    return [*answers, *hard[:HARD], *rest[:RANDOM]]
