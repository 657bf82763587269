"""Does training data hold what the evaluation asks?

Role: behind ``hpcllm dataset check``, and the last step of making a data set. Compares the question
and the answer of every example with every evaluation question: equal text, shared sequences of
eight words, and closeness of meaning.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hpcllm.errors import TrainingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from hpcllm.index.embedders.base import Embedder

GRAM_WORDS = 8
"""Words of a sequence that must not be shared; fewer would find chance repetitions."""
EMBEDDING_HIT = 0.95
"""Cosine from which two questions count as the same."""
PARAPHRASE_FROM = 0.85
"""Cosine from which a pair is listed for a person to look at."""
EMBEDDED_WORDS = 120
"""Longest text in words that is compared by meaning; longer ones are pasted logs."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text to compare.

    Attributes:
        id: names its example or question.
        role: what it is.
        text: the text.
    """

    id: str
    role: Literal["question", "answer"]
    text: str


@dataclass(frozen=True, slots=True)
class Overlap:
    """An example that is too close to an evaluation question.

    Attributes:
        example: id of the example.
        question: id of the evaluation question.
        kind: how it was found; ``paraphrase`` is for a person to look at and no hit.
        score: 1 for equal texts, the share of shared sequences, or the cosine.
        example_text: start of the example's text.
        question_text: start of the evaluation's text.
    """

    example: str
    question: str
    kind: Literal["exact", "n-gram", "embedding", "paraphrase"]
    score: float
    example_text: str
    question_text: str

    @property
    def is_hit(self) -> bool:
        """Whether the example must go."""
        return self.kind != "paraphrase"


@dataclass(frozen=True, slots=True)
class OverlapReport:
    """What was compared and found.

    Attributes:
        examples: number of examples.
        questions: number of evaluation questions.
        overlaps: what was found, hits first.
    """

    examples: int
    questions: int
    overlaps: tuple[Overlap, ...]

    @property
    def hits(self) -> tuple[Overlap, ...]:
        """What must not be."""
        return tuple(overlap for overlap in self.overlaps if overlap.is_hit)

    def to_json(self) -> dict[str, Any]:
        """Return the machine-readable form."""
        return {
            "examples": self.examples,
            "questions": self.questions,
            "hits": len(self.hits),
            "limits": {
                "gram_words": GRAM_WORDS,
                "embedding_hit": EMBEDDING_HIT,
                "paraphrase_from": PARAPHRASE_FROM,
            },
            "overlaps": [asdict(overlap) for overlap in self.overlaps],
        }

    def to_markdown(self) -> str:
        """Return the report for people."""
        near = [o for o in self.overlaps if not o.is_hit]
        lines = [
            "# Overlap of training data and evaluation questions",
            "",
            f"{self.examples:,} examples compared with {self.questions:,} questions by equal text, "
            f"shared sequences of {GRAM_WORDS} words and cosine of embeddings "
            f"(hit from {EMBEDDING_HIT}).",
            "",
            f"**{len(self.hits)} hits**, {len(near)} pairs with a cosine of {PARAPHRASE_FROM} or "
            "more for a person to look at.",
        ]
        if self.overlaps:
            lines += ["", "| kind | score | example | question | texts |", "|---|---:|---|---|---|"]
            lines += [
                f"| {o.kind} | {o.score:.3f} | {o.example} | {o.question} | "
                f"{_cell(o.example_text)} ↔ {_cell(o.question_text)} |"
                for o in self.overlaps
            ]
        return "\n".join([*lines, ""])


def _cell(text: str) -> str:
    return " ".join(text.split())[:90].replace("|", "\\|")


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text for comparison: lower case, no accents, no punctuation."""
    plain = unicodedata.normalize("NFKD", text.lower())
    kept = "".join(c for c in plain if not unicodedata.combining(c))
    return tuple(re.findall(r"[a-z0-9]+", kept))


def example_texts(rows: Iterable[Mapping[str, Any]]) -> list[Text]:
    """Return question and answer of each line of a data set; fixed refusals are left out."""
    texts: list[Text] = []
    for row in rows:
        texts.append(Text(str(row["id"]), "question", str(row["question"])))
        if not str(row.get("kind", "")).startswith("refusal"):
            texts.append(Text(str(row["id"]), "answer", str(row["completion"])))
    return texts


def question_texts(paths: Iterable[Path]) -> list[Text]:
    """Read the questions and right answers of evaluation sets in JSON lines.

    Args:
        paths: files, or folders whose ``*.jsonl`` are read.

    Raises:
        TrainingError: a file cannot be read, or a line has no question.
    """
    texts: list[Text] = []
    files = [f for p in paths for f in (sorted(p.glob("*.jsonl")) if p.is_dir() else [p])]
    for file in files:
        try:
            lines = file.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as exc:
            raise TrainingError(f"{file} cannot be read: {exc}; expected JSON lines") from exc
        for number, line in enumerate(lines, 1):
            if line.strip():
                texts += _question_row(file, number, line)
    return texts


def _question_row(file: Path, number: int, line: str) -> list[Text]:
    try:
        row = json.loads(line)
        identity = str(row.get("id") or f"{file.stem}:{number}")
        texts = [Text(identity, "question", str(row["question"]))]
    except (ValueError, KeyError, AttributeError) as exc:
        raise TrainingError(
            f'{file} line {number} is no question: expected a JSON object with "question": "…"'
        ) from exc
    if row.get("answerable", True) and row.get("gold_answer"):
        texts.append(Text(identity, "answer", str(row["gold_answer"])))
    return texts


def find_overlaps(
    examples: Sequence[Text],
    questions: Sequence[Text],
    *,
    embedder: Embedder | None = None,
    progress: Any = None,
) -> OverlapReport:
    """Compare examples with evaluation questions.

    Args:
        examples: from :func:`example_texts`.
        questions: from :func:`question_texts`.
        embedder: for closeness of meaning of questions; None compares words alone.
        progress: called with the number of texts embedded.

    Returns:
        The report; for each example and question the strongest overlap alone.
    """
    found: dict[tuple[str, str], Overlap] = {}
    for overlap in [
        *_word_overlaps(examples, questions),
        *(_embedding_overlaps(examples, questions, embedder, progress) if embedder else ()),
    ]:
        found.setdefault((overlap.example, overlap.question), overlap)
    order = {"exact": 0, "n-gram": 1, "embedding": 2, "paraphrase": 3}
    ranked = sorted(found.values(), key=lambda o: (order[o.kind], -o.score, o.example))
    count = sum(text.role == "question" for text in examples)
    return OverlapReport(count, len({text.id for text in questions}), tuple(ranked))


def _grams(words: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + GRAM_WORDS]) for i in range(len(words) - GRAM_WORDS + 1)}


def _word_overlaps(examples: Sequence[Text], questions: Sequence[Text]) -> list[Overlap]:
    """Compare questions with questions, and answers with answers, by words."""
    exact: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    holders: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for index, text in enumerate(questions):
        words = words_of(text.text)
        exact.setdefault((text.role, words), []).append(index)
        for gram in _grams(words):
            holders.setdefault((text.role, gram), []).append(index)
    found: list[Overlap] = []
    for text in examples:
        words = words_of(text.text)
        same = exact.get((text.role, words), ()) if words else ()
        found.extend(_overlap(text, questions[index], "exact", 1.0) for index in same)
        grams = _grams(words)
        shared: dict[int, int] = {}
        for gram in grams:
            for index in holders.get((text.role, gram), ()):
                shared[index] = shared.get(index, 0) + 1
        for index, count in shared.items():
            # Answers quote the documentation word for word; only whole answers are the same one.
            share = count / max(1, len(_grams(words_of(questions[index].text))))
            if text.role == "question" or share > 0.8:
                found.append(_overlap(text, questions[index], "n-gram", min(1.0, share)))
    return found


def _embedding_overlaps(
    examples: Sequence[Text], questions: Sequence[Text], embedder: Embedder, progress: Any
) -> list[Overlap]:
    asked = [t for t in questions if t.role == "question" and len(t.text.split()) < EMBEDDED_WORDS]
    given = [t for t in examples if t.role == "question" and len(t.text.split()) < EMBEDDED_WORDS]
    if not asked or not given:
        return []
    wanted = embedder.embed([text.text for text in asked])  # (q, dimension)
    vectors = embedder.embed([text.text for text in given], progress=progress)  # (n, dimension)
    found = []
    for start in range(0, len(given), 1024):
        cosines = vectors[start : start + 1024] @ wanted.T  # (block, q)
        for row, column in np.argwhere(cosines >= PARAPHRASE_FROM):
            score = float(cosines[row, column])
            kind: Literal["embedding", "paraphrase"] = (
                "embedding" if score >= EMBEDDING_HIT else "paraphrase"
            )
            found.append(_overlap(given[start + row], asked[column], kind, score))
    return found


def _overlap(
    example: Text,
    question: Text,
    kind: Literal["exact", "n-gram", "embedding", "paraphrase"],
    score: float,
) -> Overlap:
    return Overlap(
        example.id, question.id, kind, round(score, 4), example.text[:160], question.text[:160]
    )
