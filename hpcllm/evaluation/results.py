"""Rows of results: what one system answered to one question, and files of them.

Role: the format between runs, comparison, reports and gates. A result file is JSON lines: first a
header with what produced it, then one row a question in the order of the questions. Everything
that differs from run to run by nature (times, memory, date) stands under ``measured`` in rows and
under ``run`` in the header; the rest of two runs of the same system on the same data is the same.

Format history: 1 (first).
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from hpcllm.errors import EvaluationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FORMAT = 1
"""Version of the format that this program writes and reads."""
KIND = "hpcllm evaluation results"
RowStatus = Literal["ok", "failed"]


@dataclass(frozen=True, slots=True)
class Header:
    """What produced a result file.

    Attributes:
        system: id of the system.
        settings: the system's row of the TOML, resolved.
        produced_by: hashes and names: model, adapter, prompt, index, code, man pages.
        questions: name, number and SHA-256 of the questions.
        versions: versions of this package, Python and the engines.
        commit: git commit of the checkout, empty outside one.
        failed: number of questions that could not be answered.
        summary: by metric its mean, standard error and number of questions.
        run: date, seconds, machine, peak memory: what differs between runs.
        kind: always :data:`KIND`.
        format: version of the format.
    """

    system: str
    settings: Mapping[str, Any]
    produced_by: Mapping[str, Any]
    questions: Mapping[str, Any]
    versions: Mapping[str, str]
    commit: str = ""
    failed: int = 0
    summary: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)
    kind: str = KIND
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class Row:
    """What a system answered to one question, scored.

    Attributes:
        id: id of the question.
        question: the question.
        category: subject area.
        difficulty: as the question's.
        language: as the question's.
        kind: as the question's.
        split: as the question's.
        answerable: as the question's.
        gold_answer: as the question's.
        status: ``failed`` where no answer came, after all tries.
        error: why it failed, or empty.
        text: the answer.
        abstained: whether it refuses.
        fallback: why the extractive answer replaced the model's draft, or empty.
        model: what wrote the text.
        confidence: evidence for an answer, 0 to 1.
        citations: numbers with the ``source/path`` of their passages.
        pages: ``source/path`` of the passages found, best first.
        invented: names that nothing knows.
        scores: metrics by name; None where a metric does not apply.
        measured: milliseconds, tokens, memory.
    """

    id: str
    question: str
    category: str
    difficulty: str
    language: str
    kind: str
    split: str
    answerable: bool
    gold_answer: str
    status: RowStatus
    error: str
    text: str
    abstained: bool
    fallback: str
    model: str
    confidence: float
    citations: Sequence[Sequence[Any]]
    pages: Sequence[str]
    invented: Sequence[str]
    scores: Mapping[str, float | None]
    measured: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Results:
    """A result file in memory.

    Attributes:
        header: what produced it.
        rows: one row a question, in the order of the questions.
    """

    header: Header
    rows: tuple[Row, ...]


def write_results(path: Path, results: Results) -> None:
    """Write a result file in one step: it is the old one or the new one, never half of it."""
    lines = [asdict(results.header), *(asdict(row) for row in results.rows)]
    text = "".join(json.dumps(line, ensure_ascii=False, sort_keys=True) + "\n" for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    with temporary.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


def read_results(path: Path) -> Results:
    """Read a result file.

    Raises:
        EvaluationError: it is absent, damaged, no result file, or of another format; the message
            names the file and what to do.
    """
    lines = _parsed_lines(path)
    if not lines or not isinstance(lines[0], dict) or lines[0].get("kind") != KIND:
        raise EvaluationError(
            f"{path} is no result file: its first line must be a header that hpcllm eval run writes"
        )
    found = lines[0].get("format")
    if found != FORMAT:
        age = "an older" if isinstance(found, int) and found < FORMAT else "a newer or unknown"
        raise EvaluationError(
            f"{path} is of {age} format {found!r}; this version of hpcllm reads format {FORMAT}: "
            "write it anew with hpcllm eval run, which takes known answers from its cache"
        )
    try:
        return Results(Header(**lines[0]), tuple(Row(**line) for line in lines[1:]))
    except TypeError as exc:
        raise EvaluationError(f"{path} is damaged: {exc}; run hpcllm eval run again") from exc


def _parsed_lines(path: Path) -> list[Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as exc:
        raise EvaluationError(f"{path} does not exist: make it with hpcllm eval run") from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise EvaluationError(f"{path} cannot be read: {exc}") from exc
    lines = []
    for number, line in enumerate(text.rstrip("\n").split("\n") if text.strip() else (), 1):
        try:
            lines.append(json.loads(line))
        except ValueError as exc:
            raise EvaluationError(
                f"{path} line {number} is damaged ({exc}); run hpcllm eval run again"
            ) from exc
    return lines


def find_results(paths: Sequence[Path]) -> list[Results]:
    """Read result files and those in result folders, in the order of their names.

    Raises:
        EvaluationError: there is none, one cannot be read, or two are of the same system.
    """
    files = [
        f for path in paths for f in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])
    ]
    if not files:
        names = ", ".join(str(path) for path in paths)
        raise EvaluationError(f"no result files in {names}: make some with hpcllm eval run")
    found = [read_results(file) for file in files]
    systems = [results.header.system for results in found]
    if doubled := sorted({name for name in systems if systems.count(name) > 1}):
        raise EvaluationError(
            f"several result files are of the same system ({', '.join(doubled)}): "
            "name files or one folder, not both"
        )
    return found
