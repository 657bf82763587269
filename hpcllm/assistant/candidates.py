"""The units of some passages with what can be told of them without any model.

Role: between units and their scores: shared rare words, the form asked for, neighbourhood.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hpcllm.assistant.language import subject_words
from hpcllm.assistant.units import Unit, split_units
from hpcllm.index.ranker import Piece

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hpcllm.records import Passage

MINIMUM_WORDS = 3
"""Shorter sentences say nothing by themselves."""
PASTED_SHARE = 0.65
"""Share of its words that a unit has in common with the question from which it repeats it."""
PASTED_WORDS = 5
"""Fewest words of such a unit: a short one may answer with the question's own words."""
HEADING_SHARE = 0.5
"""Share of the words of a heading that must be asked for if its "yes" or "no" is to answer."""

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
_VERDICT = re.compile(r"(?:yes|no|sim|não)\b[.,:;]", re.IGNORECASE)
_NAME = re.compile(r"(?<![\w-])(?:--?[A-Za-z][\w-]+|\w+_\w+|[A-Za-z]*[a-z][A-Z]\w*|[A-Z]{3,}\w*)")
"""An option, a variable, a reason of Slurm: a name that stands for one thing alone."""
_LONG_WORD = re.compile(r"[\w.+-]{5,}")
_NAMED = re.compile(
    r"(?<![\w.+-])([\w.+-]{1,40})\W{1,3}(?:partitions?|queues?|qos)\b|"
    r"\b(?:partitions?|queues?|qos|partiç(?:ão|ões)|filas?)\W{1,3}([\w.+-]{1,40})",
    re.IGNORECASE,
)
"""What may be named however short it is: the gpu partition, a partição gpu. Bounded, for a question
may be 20,000 characters without a space."""
_SPAN = re.compile(r"`([^`]+)`")
_PART = re.compile(r"[/,=:\s]+")
_PROMPT = re.compile(r"^[ \t]*[$#]", re.MULTILINE)
_OUTPUT_LANGUAGES = frozenset(("", "text", "output", "console"))
_QUANTITY = re.compile(r"\d")
_COMMAND = re.compile(r"`[^`]+`|(?<!\w)--?[A-Za-z]|#SBATCH|\b\w+=\S|\b[A-Z]+_[A-Z_]+\b")
_PLACE = re.compile(
    r"https?://|\S@\S+\.\w|(?<!\w)[~$]?/?\w[\w.$-]*/[\w.$-]+|\b[\w-]+(\.[\w-]+){2,}\b"
)


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


class LexicalWeights(Protocol):
    """What :func:`lexical_scores` is weighted by."""

    @property
    def words(self) -> float:
        """For the share of the question's rare words that a unit holds."""
        ...

    @property
    def context(self) -> float:
        """Of a word that only the unit's heading or introduction holds."""
        ...

    @property
    def rank(self) -> float:
        """Lost from the first to the eighth passage."""
        ...


def candidates_of(passages: Sequence[Passage]) -> list[Candidate]:
    """Return the quotable units of passages in reading order, each text once."""
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


def readable(
    candidates: Sequence[Candidate], passages: Sequence[Passage], language: str
) -> list[Candidate]:
    """Leave out what is neither in ``language`` nor in English, where anything else is left."""
    kept = [c for c in candidates if passages[c.passage].language[:2] in (language[:2], "en")]
    return kept or list(candidates)


def focused(question: str, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Leave out rows of a table where other rows have what the question names.

    Who asks for ``QOSMaxGRESPerUser`` does not ask for the five reasons below it, and who asks for
    openfoam asks for the row that holds ```openfoam/11```.
    """
    names = {name.casefold() for name in _NAME.findall(question)}
    words = {word.casefold() for word in _LONG_WORD.findall(question)}
    words |= {word.casefold() for pair in _NAMED.findall(question) for word in pair if word}
    tables: dict[str, list[tuple[Candidate, bool]]] = {}
    for candidate in candidates:
        if candidate.unit.kind == "row":
            header = candidate.unit.quote.split("\n", 1)[0]  # a table may go on in another passage
            rows = tables.setdefault(header, [])
            rows.append((candidate, _has_any(candidate.unit.text.casefold(), names, words)))
    beside = {
        candidate
        for rows in tables.values()
        if any(is_named for _, is_named in rows)
        for candidate, is_named in rows
        if not is_named
    }
    return [candidate for candidate in candidates if candidate not in beside]


def _has_any(row: str, names: set[str], words: set[str]) -> bool:
    """Tell whether a row holds a name anywhere or a word as part of its code."""
    parts = (part for span in _SPAN.findall(row) for part in _PART.split(span))
    return any(name in row for name in names) or not words.isdisjoint(parts)


def lexical_scores(
    asked: frozenset[str], candidates: Sequence[Candidate], weights: LexicalWeights
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


def form_fit(question: str, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """Return 1 for units that have a form asked for, else 0."""
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
    return np.array(fits, dtype=np.float64)


def adjacent(left: Candidate, right: Candidate) -> bool:
    """Tell whether one unit follows the other in the same passage."""
    return left.passage == right.passage and right.unit.position == left.unit.position + 1


def echo_shares(asked: frozenset[str], candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """Return the share of each unit's words that the question has already."""
    return np.array([len(c.words & asked) / max(1, len(c.words)) for c in candidates])


def pasted(asked: frozenset[str], candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """Return 1 for units that say what the question says, such as an error quoted in both."""
    is_long = np.array([len(c.words) >= PASTED_WORDS for c in candidates])
    return (is_long & (echo_shares(asked, candidates) >= PASTED_SHARE)).astype(np.float64)


def stray_verdicts(asked: frozenset[str], candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """Return 1 for units that say "yes" or "no" to another question than the one asked."""
    strays = [
        bool(_VERDICT.match(c.unit.text))
        and len(c.context & asked) < HEADING_SHARE * max(1, len(c.context))
        for c in candidates
    ]
    return np.array(strays, dtype=np.float64)


def outputs(candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """Return 1 for units that show what a program prints: who pastes an error wants its cure."""
    prints = [
        c.unit.kind == "code"
        and c.unit.language in _OUTPUT_LANGUAGES
        and not _PROMPT.search(c.unit.text)
        for c in candidates
    ]
    return np.array(prints, dtype=np.float64)


def shared_words(candidates: Sequence[Candidate], index: int) -> NDArray[np.float64]:
    """Return the share of each unit's words that the one of that index has."""
    taken = candidates[index].words
    return np.array([len(c.words & taken) / max(1, len(c.words)) for c in candidates])


def piece_of(candidate: Candidate, passages: Sequence[Passage]) -> Piece:
    """Return what a ranker reads of a candidate from one of ``passages``."""
    unit = candidate.unit
    title = passages[candidate.passage].title
    return Piece(title, unit.context, f"{unit.lead} {unit.text}".strip())
