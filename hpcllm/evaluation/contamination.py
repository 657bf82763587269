"""Contamination: has the model seen the questions?

Two sides. Training data against questions: equal text, shared word sequences, near embeddings and
candidates for paraphrases, each with the pair to look at. The model itself: the share of questions
that it gets right without any passage, and whether it finds the questions less surprising than
reworded twins of them (Yang et al. 2023, https://arxiv.org/abs/2311.04850, on why equal strings
are not enough).
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hpcllm.errors import EvaluationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from hpcllm.index.embedders.base import Embedder
    from hpcllm.records import Question

Kind = Literal["string", "n-gram", "embedding", "paraphrase"]

GRAM_WORDS = 8
"""Words of a sequence that must not be shared. Fewer find chance repetitions of set phrases."""
EMBEDDING_HIT = 0.95
"""Cosine from which two questions count as the same."""
PARAPHRASE_FROM = 0.80
"""Cosine from which a pair is listed for a person to look at."""
LONGEST_QUESTION_WORDS = 200
"""Words of a training text that can be a question; longer texts are looked through for the string
and word sequences only."""
_LAST_QUESTION = re.compile(r"(?:^|\n)\s*(?:Question|Pergunta):\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Hit:
    """A question and the training text that is too close to it.

    Attributes:
        question: id.
        kind: how it was found.
        training: place of the training text, ``file:line``.
        text: start of the training text.
        score: 1 for equal strings, the share of the question's sequences, or the cosine.
    """

    question: str
    kind: Kind
    training: str
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class ContaminationReport:
    """What training data and questions have in common.

    Attributes:
        questions: number of questions.
        examples: number of training texts.
        hits: string, n-gram and embedding: these must not be.
        candidates: pairs that may be paraphrases, closest first.
    """

    questions: int
    examples: int
    hits: tuple[Hit, ...]
    candidates: tuple[Hit, ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found that must not be."""
        return not self.hits

    def to_json(self) -> dict[str, Any]:
        """Return the machine-readable form (docs/cli.md, ``hpcllm eval contamination --json``)."""
        from dataclasses import asdict

        return {
            "questions": self.questions,
            "examples": self.examples,
            "clean": self.is_clean,
            "hits": [asdict(hit) for hit in self.hits],
            "candidates": [asdict(hit) for hit in self.candidates],
        }


@dataclass(frozen=True, slots=True)
class TrainingText:
    """One question-like text of the training data.

    Attributes:
        place: ``file:line``.
        text: what a user says in it, passages left out.
    """

    place: str
    text: str
    words: tuple[str, ...] = field(default=(), repr=False)


def read_training_texts(paths: Iterable[Path]) -> list[TrainingText]:
    """Read what users say from instruction data in JSON lines.

    Known forms of a line: ``{"messages": [{"role", "content"}, …]}``, ``{"prompt": …}``,
    ``{"question": …}``, ``{"instruction": …}``. Of a message with passages the part after the last
    ``Question:`` counts, for passages are quoted documentation.

    Raises:
        EvaluationError: a file cannot be read, or a line has none of these forms.
    """
    texts = []
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as exc:
            raise EvaluationError(f"{path} cannot be read: {exc}") from exc
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                said = list(_said(json.loads(line)))
            except (ValueError, TypeError, KeyError) as exc:
                raise EvaluationError(
                    f"{path} line {number} is no training example ({exc}): expected messages, "
                    "prompt, question or instruction"
                ) from exc
            texts += [TrainingText(f"{path.name}:{number}", t, tuple(words_of(t))) for t in said]
    return texts


def _said(row: Any) -> Iterator[str]:
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    source = row.get("messages", row.get("prompt", row.get("question", row.get("instruction"))))
    if source is None:
        raise ValueError(f"its fields are {', '.join(row)}")
    if isinstance(source, str):
        source = [{"role": "user", "content": source}]
    for message in source:
        if message["role"] == "user":
            yield _LAST_QUESTION.split(message["content"])[-1].strip()


def words_of(text: str) -> list[str]:
    """Return the words of a text for comparison: lower case, without accents and punctuation."""
    plain = unicodedata.normalize("NFKD", text.lower())
    return re.findall(r"[a-z0-9]+", "".join(c for c in plain if not unicodedata.combining(c)))


def find_contamination(
    questions: Sequence[Question],
    training: Sequence[TrainingText],
    *,
    embedder: Embedder | None = None,
    allowed: Sequence[str] = (),
) -> ContaminationReport:
    """Compare questions with training texts.

    Args:
        questions: of the evaluation.
        training: what users say in the training data.
        embedder: for closeness of meaning; None looks at words only.
        allowed: texts whose word sequences may stand in both, such as quoted error messages.
    """
    hits = [*_string_hits(questions, training), *_gram_hits(questions, training, allowed)]
    candidates: list[Hit] = []
    if embedder is not None and training:
        for hit in _embedding_hits(questions, training, embedder):
            (hits if hit.kind == "embedding" else candidates).append(hit)
    candidates.sort(key=lambda hit: -hit.score)
    return ContaminationReport(len(questions), len(training), tuple(hits), tuple(candidates))


def _string_hits(questions: Sequence[Question], training: Sequence[TrainingText]) -> Iterator[Hit]:
    """Yield texts that hold a question as a whole; very short questions must be equal."""
    held = [(text, f" {' '.join(text.words)} ") for text in training]
    for question in questions:
        words = words_of(question.question)
        wanted = f" {' '.join(words)} "
        for text, joined in held:
            is_hit = wanted in joined if len(words) >= 4 else wanted == joined
            if words and is_hit:
                yield Hit(question.id, "string", text.place, text.text[:200], 1.0)


def _grams(words: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + GRAM_WORDS]) for i in range(len(words) - GRAM_WORDS + 1)}


def _gram_hits(
    questions: Sequence[Question], training: Sequence[TrainingText], allowed: Sequence[str]
) -> Iterator[Hit]:
    free = {gram for text in allowed for gram in _grams(words_of(text))}
    holders: dict[tuple[str, ...], set[int]] = {}
    for index, text in enumerate(training):
        for gram in _grams(text.words):
            holders.setdefault(gram, set()).add(index)
    for question in questions:
        grams = _grams(words_of(question.question)) - free
        shared: dict[int, int] = {}
        for gram in grams:
            for index in holders.get(gram, ()):
                shared[index] = shared.get(index, 0) + 1
        if shared:
            index = max(shared, key=lambda i: (shared[i], -i))
            text = training[index]
            score = shared[index] / len(grams)
            yield Hit(question.id, "n-gram", text.place, text.text[:200], round(score, 4))


def _embedding_hits(
    questions: Sequence[Question], training: Sequence[TrainingText], embedder: Embedder
) -> Iterator[Hit]:
    """Yield the nearest training text of each question, where it is near."""
    short = [text for text in training if len(text.words) <= LONGEST_QUESTION_WORDS]
    if not short:
        return
    vectors = embedder.embed([text.text for text in short])  # (n, dimension)
    asked = embedder.embed([question.question for question in questions])  # (q, dimension)
    for question, vector in zip(questions, asked, strict=True):
        cosines = vectors @ vector  # (n,)
        best = int(np.argmax(cosines))
        score = float(cosines[best])
        if score >= PARAPHRASE_FROM:
            kind: Kind = "embedding" if score >= EMBEDDING_HIT else "paraphrase"
            text = short[best]
            yield Hit(question.id, kind, text.place, text.text[:200], round(score, 4))
