"""Run a system on questions: answer what is not answered yet, score, write the result file.

Role: the flow of ``hpcllm eval run``. Answers go through a journal
(:mod:`~hpcllm.evaluation.cache`), so that a run that was killed goes on where it was and ends with
the same file. A question whose engine fails is tried again, then recorded as failed and counted.
"""

from __future__ import annotations

import datetime
import itertools
import logging
import os
import platform
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hpcllm.errors import BusyError, GenerationError, HpcLlmError
from hpcllm.evaluation.answering import RawAnswer
from hpcllm.evaluation.cache import AnswerCache, answer_key
from hpcllm.evaluation.fingerprints import git_commit, questions_sha256, versions
from hpcllm.evaluation.metrics.cost import peak_memory_mib
from hpcllm.evaluation.results import Header, Results, write_results
from hpcllm.evaluation.scoring import Scorer, summarise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from hpcllm.evaluation.answering import Answerer
    from hpcllm.evaluation.results import Row
    from hpcllm.evaluation.systems import System
    from hpcllm.records import Question

    Progress = Callable[[int, int | None], None]

logger = logging.getLogger(__name__)

CACHE_FOLDER = "cache"
BACKOFF_S = 1.0
"""Wait before the second try of a question; doubled for each further one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of asking one question.

    Attributes:
        answer: the answer, or None where it failed.
        error: why it failed, or empty.
        peak_memory_mib: largest memory of the process so far.
    """

    answer: RawAnswer | None
    error: str = ""
    peak_memory_mib: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the form of the journal."""
        return {
            "answer": self.answer.to_json() if self.answer else None,
            "error": self.error,
            "peak_memory_mib": round(self.peak_memory_mib, 1),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Outcome:
        """Read the form of the journal."""
        answer = RawAnswer.from_json(data["answer"]) if data["answer"] else None
        return cls(answer, data["error"], data["peak_memory_mib"])


def run_system(
    system: System,
    answerer: Answerer,
    questions: Sequence[Question],
    *,
    results_dir: Path,
    make_scorer: Callable[[], Scorer],
    name: str = "questions",
    retry_failed: bool = False,
    progress: Progress | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Results:
    """Answer and score questions and write ``results_dir/<name>/<system>.jsonl``.

    Args:
        system: the row of the TOML.
        answerer: what answers for it.
        questions: in the order that the rows get; ids must differ.
        results_dir: folder of results; the journal lies in its ``cache``.
        make_scorer: gives what computes the metrics; called once all is answered, so that its
            memory is not counted as the system's.
        name: name of the set of questions, the folder of the file.
        retry_failed: ask again what failed in an earlier run.
        progress: called as ``progress(advance, total)`` with questions.
        sleep: waits between tries.

    Returns:
        The results, as written.

    Raises:
        EvaluationError: another run is answering for the same system, or files cannot be written.
    """
    started = time.perf_counter()
    with AnswerCache(results_dir / CACHE_FOLDER, answerer.produced_by) as cache:
        missing = [q for q in questions if _is_missing(cache, q, retry_failed=retry_failed)]
        reused = len(questions) - len(missing)
        if progress:
            progress(reused, len(questions))
        for question, outcome in _ask_all(system, answerer, missing, sleep):
            cache.put(answer_key(question), outcome.to_json())
            if progress:
                progress(1, None)
        outcomes = [Outcome.from_json(cache.entries[answer_key(q)]) for q in questions]
    rows = make_scorer().score_all(questions, outcomes, output=system.output)
    header = _header(system, answerer, questions, rows, name=name)
    run = {"seconds": round(time.perf_counter() - started, 1), "reused": reused}
    header = replace(header, run={**header.run, **run})
    results = Results(header, tuple(rows))
    write_results(results_dir / name / f"{system.id}.jsonl", results)
    return results


def _header(
    system: System,
    answerer: Answerer,
    questions: Sequence[Question],
    rows: Sequence[Row],
    *,
    name: str,
) -> Header:
    return Header(
        system=system.id,
        settings=system.model_dump(),
        produced_by=dict(answerer.produced_by),
        questions={
            "name": name,
            "count": len(questions),
            "sha256": questions_sha256(questions),
        },
        versions=versions(),
        commit=git_commit(),
        failed=sum(row.status == "failed" for row in rows),
        summary=summarise(rows),
        run={
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "machine": f"{platform.machine()}, {_cores()} cores",
        },
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _is_missing(cache: AnswerCache, question: Question, *, retry_failed: bool) -> bool:
    entry = cache.entries.get(answer_key(question))
    return entry is None or (retry_failed and entry["answer"] is None)


def _ask_all(
    system: System,
    answerer: Answerer,
    questions: Iterable[Question],
    sleep: Callable[[float], None],
) -> Iterator[tuple[Question, Outcome]]:
    """Yield outcomes as they come; one at a time keeps the order."""
    if system.parallel == 1:
        for question in questions:
            yield question, ask(answerer, question, attempts=system.attempts, sleep=sleep)
        return
    left = iter(questions)
    running: dict[Future[Outcome], Question] = {}
    with ThreadPoolExecutor(system.parallel) as pool:
        while True:
            for question in itertools.islice(left, system.parallel - len(running)):
                future = pool.submit(ask, answerer, question, attempts=system.attempts, sleep=sleep)
                running[future] = question
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()


def ask(
    answerer: Answerer,
    question: Question,
    *,
    attempts: int,
    sleep: Callable[[float], None] = time.sleep,
) -> Outcome:
    """Ask one question, again while the engine fails; what fails in the end is an outcome too."""
    error: HpcLlmError | None = None
    for attempt in range(1, attempts + 1):
        try:
            return Outcome(answerer.answer(question), peak_memory_mib=peak_memory_mib())
        except GenerationError as exc:
            error = exc
            logger.info("%s, try %d of %d: %s", question.id, attempt, attempts, exc)
            if attempt < attempts:
                asked_s = exc.retry_after_s if isinstance(exc, BusyError) else 0.0
                sleep(max(asked_s, BACKOFF_S * 2 ** (attempt - 1)))
        except HpcLlmError as exc:
            error = exc
            break
    logger.warning("%s failed: %s", question.id, error)
    return Outcome(None, error=str(error), peak_memory_mib=peak_memory_mib())
