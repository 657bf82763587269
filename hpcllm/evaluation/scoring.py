"""Put the metrics together: from an answer to a scored row, from rows to a summary.

Role: the one list of metrics (:data:`METRICS`) that results, comparison and reports share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hpcllm.evaluation.metrics.abstention import Judged
from hpcllm.evaluation.metrics.citations import citation_precision, citation_recall
from hpcllm.evaluation.metrics.commands import commands_share
from hpcllm.evaluation.metrics.cost import answer_words
from hpcllm.evaluation.metrics.facts import facts_share, is_right
from hpcllm.evaluation.metrics.inventions import invented_names
from hpcllm.evaluation.metrics.known import KnownNames
from hpcllm.evaluation.metrics.retrieval import (
    facts_in_first,
    facts_in_words,
    hit,
    reciprocal_rank,
)
from hpcllm.evaluation.metrics.similarity import embedding_similarities, rouge_l
from hpcllm.evaluation.results import Row
from hpcllm.evaluation.statistics import mean_and_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpcllm.evaluation.answering import Output, RawAnswer
    from hpcllm.evaluation.runner import Outcome
    from hpcllm.index.embedders.base import Embedder
    from hpcllm.records import Question
    from hpcllm.workspace import Workspace

WORD_BUDGETS = (700, 2000)
"""Words of passages that facts are looked for in: what a small and a large model reads."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: key in scores.
        label: heading in tables.
        family: subject; the module that defines it.
        better: which way is better.
        form: how it is printed.
    """

    name: str
    label: str
    family: str
    better: Literal["higher", "lower"] = "higher"
    form: Literal["share", "number"] = "share"


METRICS = (
    Metric("right", "right", "facts"),
    Metric("facts_all", "all facts", "facts"),
    Metric("facts_share", "facts", "facts"),
    Metric("commands_all", "all commands", "commands"),
    Metric("commands_share", "commands", "commands"),
    Metric("has_invented", "answers with inventions", "inventions", "lower"),
    Metric("invented", "inventions per answer", "inventions", "lower", "number"),
    Metric("citation_precision", "citation precision", "citations"),
    Metric("citation_recall", "citation recall", "citations"),
    Metric("refused_right", "unanswerable refused", "abstention"),
    Metric("refused_wrong", "answerable refused", "abstention", "lower"),
    Metric("hit_1", "hit@1", "retrieval"),
    Metric("hit_3", "hit@3", "retrieval"),
    Metric("hit_8", "hit@8", "retrieval"),
    Metric("mrr", "MRR", "retrieval"),
    Metric("facts_first_1", "facts in 1 passage", "retrieval"),
    Metric("facts_first_3", "facts in 3 passages", "retrieval"),
    Metric("facts_first_8", "facts in 8 passages", "retrieval"),
    Metric("facts_700", "facts in 700 words", "retrieval"),
    Metric("facts_2000", "facts in 2000 words", "retrieval"),
    Metric("words", "words", "cost", "lower", "number"),
    Metric("rouge_l", "ROUGE-L", "similarity"),
    Metric("similarity", "similarity", "similarity"),
)
"""All metrics of answers, in the order of tables; times, tokens and memory are under measured."""
METRIC = {metric.name: metric for metric in METRICS}


class Scorer:
    """Computes the metrics.

    Args:
        known: names that answers may use; None leaves inventions out.
        embedder: for the similarity to the gold answer; None leaves it out.
    """

    def __init__(
        self, *, known: KnownNames | None = None, embedder: Embedder | None = None
    ) -> None:
        self._known = known
        self._embedder = embedder

    def score_all(
        self,
        questions: Sequence[Question],
        outcomes: Sequence[Outcome],
        *,
        output: Literal["checked", "draft"] = "checked",
    ) -> list[Row]:
        """Score the outcomes of questions, in their order.

        Args:
            questions: what was asked.
            outcomes: what came of it, in the same order.
            output: whether the final answers or the drafts count.
        """
        rows = [
            self.score(q, outcome, output=output)
            for q, outcome in zip(questions, outcomes, strict=True)
        ]
        return self._with_similarity(rows)

    def score(
        self, question: Question, outcome: Outcome, *, output: Literal["checked", "draft"]
    ) -> Row:
        """Score one outcome; the similarity by embedding is left to :meth:`score_all`."""
        answer = outcome.answer
        chosen = _chosen(answer, output) if answer else None
        invented = self._invented(question, chosen) if chosen else []
        return Row(
            id=question.id,
            question=question.question,
            category=question.category,
            difficulty=question.difficulty,
            language=question.language,
            kind=question.kind,
            split=question.split,
            answerable=question.answerable,
            gold_answer=question.gold_answer,
            status="ok" if answer else "failed",
            error=outcome.error,
            text=chosen.text if chosen else "",
            abstained=chosen.abstained if chosen else False,
            fallback=answer.fallback if answer and output == "checked" else "",
            model=answer.model if answer else "",
            confidence=round(answer.confidence, 6) if answer else 0.0,
            citations=_cited_pages(answer, chosen) if answer and chosen else [],
            pages=[page for page, _ in answer.passages] if answer else [],
            invented=invented,
            scores=_scores(question, answer, chosen, invented if self._known else None),
            measured=_measured(outcome),
        )

    def _invented(self, question: Question, chosen: Output) -> list[str]:
        if self._known is None or chosen.abstained:
            return []
        said = "\n".join([*(turn.text for turn in question.history), question.question])
        return invented_names(chosen.text, self._known, question=said)

    def _with_similarity(self, rows: list[Row]) -> list[Row]:
        from dataclasses import replace

        counted = [row for row in rows if row.answerable]
        if self._embedder is None or not counted:
            return rows
        values = embedding_similarities(
            [row.gold_answer for row in counted],
            [row.text if row.status == "ok" else "" for row in counted],
            self._embedder,
        )
        by_id = {row.id: round(v, 6) for row, v in zip(counted, values, strict=True)}
        return [
            replace(row, scores={**row.scores, "similarity": by_id.get(row.id)}) for row in rows
        ]


def open_scorer(workspace: Workspace, *, generation_name: str | None = None) -> Scorer:
    """Return the scorer of a workspace: names known from its index, similarity by its embedder.

    Args:
        workspace: whose index, site facts and embedder.
        generation_name: generation of the index whose pages count; None takes the current one.
    """
    from hpcllm.index.embedders import load_embedder

    embedder = load_embedder(
        workspace.settings.index.embedder,
        models_dir=workspace.models_dir,
        threads=workspace.threads,
    )
    known = workspace_known(workspace, generation_name=generation_name)
    return Scorer(known=known, embedder=embedder)


def workspace_known(workspace: Workspace, *, generation_name: str | None = None) -> KnownNames:
    """Return the names that the pages in a workspace's index and its site facts know."""
    from hpcllm.errors import StoreError
    from hpcllm.evaluation.metrics.known import collect_known, read_known
    from hpcllm.index.generation import Generation, open_current
    from hpcllm.workspace import read_toml

    folder = workspace.index_dir
    try:
        with (
            Generation(folder / generation_name)
            if generation_name
            else open_current(folder) as generation
        ):
            chunks = (generation.chunk(name) for name in sorted(generation.store.ids()))
            pages = [chunk.text for chunk in chunks if chunk]
    except StoreError:
        return read_known(workspace.corpus_dir)
    site = workspace.corpus_dir / "site.toml"
    return collect_known(pages, read_toml(site) if site.is_file() else {})


def _chosen(answer: RawAnswer, output: Literal["checked", "draft"]) -> Output:
    return answer.draft if output == "draft" and answer.draft else answer.final


def _cited_pages(answer: RawAnswer, chosen: Output) -> list[list[Any]]:
    return [
        [number, answer.passages[index][0] if 0 <= index < len(answer.passages) else None]
        for number, index in chosen.citations
    ]


def _measured(outcome: Outcome) -> dict[str, float]:
    times = dict(outcome.answer.measured) if outcome.answer else {}
    return {
        **{name: round(value, 2) for name, value in times.items()},
        "peak_memory_mib": outcome.peak_memory_mib,
    }


def _scores(
    question: Question,
    answer: RawAnswer | None,
    chosen: Output | None,
    invented: list[str] | None,
) -> dict[str, float | None]:
    """Return all metrics of one answer; a failed one holds nothing and is wrong."""
    text = chosen.text if chosen else ""
    abstained = bool(chosen and chosen.abstained)
    scores: dict[str, float | None] = {metric.name: None for metric in METRICS}
    scores["right"] = float(chosen is not None and is_right(question, text, abstained=abstained))
    if question.answerable:
        share = 0.0 if abstained else facts_share(question, text)
        scores |= {"facts_share": share, "facts_all": float(share == 1.0)}
        scores["refused_wrong"] = float(abstained)
        scores["rouge_l"] = rouge_l(question.gold_answer, text)
        scores |= _command_scores(question, "" if abstained else text)
    else:
        scores["refused_right"] = float(abstained)
    if answer and chosen and not abstained:
        scores["words"] = float(answer_words(text))
        scores |= _citation_scores(question, answer, chosen)
        if invented is not None:
            scores |= {"invented": float(len(invented)), "has_invented": float(bool(invented))}
    if answer and answer.passages and question.answerable:
        scores |= _retrieval_scores(question, answer)
    return {n: None if v is None else round(v, 6) for n, v in scores.items()}


def _command_scores(question: Question, text: str) -> dict[str, float | None]:
    if not question.gold_commands:
        return {}
    share = commands_share(question.gold_commands, text)
    return {"commands_share": share, "commands_all": float(share == 1.0)}


def _citation_scores(
    question: Question, answer: RawAnswer, chosen: Output
) -> dict[str, float | None]:
    if not answer.passages:
        return {}
    texts = {n: answer.passages[i][1] for n, i in chosen.citations if 0 <= i < len(answer.passages)}
    return {
        "citation_precision": citation_precision(question, chosen.text, texts),
        "citation_recall": citation_recall(question, chosen.text, texts),
    }


def _retrieval_scores(question: Question, answer: RawAnswer) -> dict[str, float | None]:
    pages = [page for page, _ in answer.passages]
    texts = [text for _, text in answer.passages]
    return {
        **{f"hit_{k}": hit(question, pages, k) for k in (1, 3, 8)},
        "mrr": reciprocal_rank(question, pages),
        **{f"facts_first_{k}": facts_in_first(question, texts, k) for k in (1, 3, 8)},
        **{f"facts_{words}": facts_in_words(question, texts, words) for words in WORD_BUDGETS},
    }


def judged(row: Row) -> Judged:
    """Return what abstention metrics see of a row; a failed one counts as a wrong answer."""
    return Judged(
        confidence=row.confidence,
        answerable=row.answerable,
        abstained=row.abstained,
        right=bool(row.scores["right"]) and not row.abstained,
    )


def summarise(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return mean, standard error and number of questions of each metric that applies."""
    summary = {}
    for metric in METRICS:
        values = [v for row in rows if (v := row.scores.get(metric.name)) is not None]
        if values:
            mean, error = mean_and_error(values)
            summary[metric.name] = {
                "mean": round(mean, 6),
                "standard_error": round(error, 6),
                "n": len(values),
            }
    return summary
