"""Model-side contamination: is a question less surprising to a model than its reworded twins?

Role: works with any server whose completions endpoint returns the log-probabilities of the prompt
(``echo`` with ``logprobs``, as vLLM does). Where a server does not, it says so.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import httpx

from hpcllm.errors import EvaluationError, GenerationError
from hpcllm.evaluation.statistics import Interval, paired_difference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hpcllm.records import Question

TIMEOUT_S = 120.0
FEWEST_TWINS = 10
"""Pairs below which no statement is made."""


class LogprobSource(Protocol):
    """Gives the log-probabilities of a text's tokens under a model."""

    def logprobs(self, text: str) -> list[float]:
        """Return the natural log-probability of every token but the first.

        Raises:
            GenerationError: the model cannot say.
        """
        ...


class CompletionsLogprobs:
    """Asks an OpenAI-compatible completions endpoint.

    Args:
        base_url: address that ends in ``/v1``.
        model: name of the model on the server.
        api_key: key for the server, or None.
    """

    def __init__(self, base_url: str, model: str, *, api_key: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = httpx.Client(headers=headers, timeout=TIMEOUT_S)
        self._url = f"{base_url.rstrip('/')}/completions"
        self._model = model

    def logprobs(self, text: str) -> list[float]:
        """Return the natural log-probability of every token but the first."""
        request = {
            "model": self._model,
            "prompt": text,
            "max_tokens": 0,
            "echo": True,
            "logprobs": 1,
            "temperature": 0,
        }
        try:
            response = self._client.post(self._url, json=request)
            response.raise_for_status()
            found = response.json()["choices"][0]["logprobs"]["token_logprobs"]
        except httpx.HTTPError as exc:
            raise GenerationError(f"{self._url} failed: {exc}") from exc
        except (KeyError, IndexError, TypeError, ValueError) as exc:
            raise GenerationError(
                f"{self._url} does not return the log-probabilities of a prompt: use a server "
                "that supports echo with logprobs, such as vLLM"
            ) from exc
        return [float(value) for value in found if value is not None]

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


@dataclass(frozen=True, slots=True)
class PerplexityReport:
    """Surprise at questions against surprise at their twins.

    Attributes:
        n: pairs compared.
        question: geometric mean perplexity of the questions.
        twin: that of the twins.
        difference: mean log-perplexity of question minus twin, with interval; below zero with an
            interval that excludes zero hints at questions that were seen.
    """

    n: int
    question: float
    twin: float
    difference: Interval

    @property
    def is_suspicious(self) -> bool:
        """Whether the questions are surely less surprising than their twins."""
        return self.difference.high < 0


def compare_perplexity(
    questions: Sequence[Question], twins: Mapping[str, str], source: LogprobSource
) -> PerplexityReport:
    """Compare the perplexity of questions with that of reworded twins.

    Args:
        questions: of the evaluation.
        twins: another wording by question id, in the same style and of about the same length.
        source: the model.

    Raises:
        EvaluationError: fewer than :data:`FEWEST_TWINS` questions have a twin.
        GenerationError: the model cannot say.
    """
    pairs = [(q.question, twins[q.id]) for q in questions if q.id in twins]
    if len(pairs) < FEWEST_TWINS:
        raise EvaluationError(
            f"{len(pairs)} questions have a reworded twin, at least {FEWEST_TWINS} are needed"
        )
    own = [log_perplexity(source.logprobs(text)) for text, _ in pairs]
    other = [log_perplexity(source.logprobs(text)) for _, text in pairs]
    return PerplexityReport(
        n=len(pairs),
        question=math.exp(sum(own) / len(own)),
        twin=math.exp(sum(other) / len(other)),
        difference=paired_difference(own, other),
    )


def log_perplexity(logprobs: Sequence[float]) -> float:
    """Return the mean negative log-probability of a text's tokens; 0 for a text of one token."""
    return -sum(logprobs) / len(logprobs) if logprobs else 0.0


def read_twins(path: Path) -> dict[str, str]:
    """Read reworded questions: JSON lines with ``id`` and ``question``.

    Raises:
        EvaluationError: the file cannot be read or a line lacks a field.
    """
    try:
        rows = [json.loads(x) for x in path.read_text(encoding="utf-8").split("\n") if x.strip()]
        return {str(row["id"]): str(row["question"]) for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise EvaluationError(
            f"{path} cannot be read as reworded questions ({exc}): expected lines like "
            '{"id": "…", "question": "…"}'
        ) from exc
