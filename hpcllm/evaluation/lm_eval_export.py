"""Export the questions as a task of lm-evaluation-harness, so that others can score their models.

Role: writes a folder with a YAML task, the data as JSON lines and the scoring functions. The
harness runs it with ``lm_eval --include_path DIR --tasks hpcllm`` and any of its back ends; this
package is not needed there. See https://github.com/EleutherAI/lm-evaluation-harness.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Any

from hpcllm.errors import EvaluationError
from hpcllm.evaluation.answering import CLOSED_BOOK_SYSTEM

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hpcllm.records import Passage, Question

TASK = "hpcllm"
VERSION = 1.0
YAML = """\
# Questions about a computing centre, scored by the facts that an answer holds.
# Run: lm_eval --include_path {folder} --tasks {task} --model hf --model_args pretrained=NAME
task: {task}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
output_type: generate_until
description: "{description}\\n\\n"
doc_to_text: "{{{{prompt}}}}"
doc_to_target: "{{{{gold_answer}}}}"
generation_kwargs:
  until: ["\\n\\nQuestion:", "<|im_end|>"]
  max_gen_toks: 256
  do_sample: false
process_results: !function utils.process_results
metric_list:
  - metric: right
    aggregation: mean
    higher_is_better: true
  - metric: facts_share
    aggregation: mean
    higher_is_better: true
  - metric: facts_all
    aggregation: mean
    higher_is_better: true
metadata:
  version: {version}
"""


def export_task(
    folder: Path,
    questions: Sequence[Question],
    *,
    search: Callable[[Question], Sequence[Passage]] | None = None,
) -> list[Path]:
    """Write the task into ``folder``.

    Args:
        folder: made where it does not exist; it must be empty or an earlier export.
        questions: what is asked, in this order.
        search: finds the passages to show before each question; None exports without passages.

    Returns:
        The files written.

    Raises:
        EvaluationError: the folder holds other files, or there is no question.
    """
    if not questions:
        raise EvaluationError("there is no question to export: choose another split or file")
    names = [f"{TASK}.yaml", "questions.jsonl", "utils.py"]
    if folder.is_dir() and (other := sorted({p.name for p in folder.iterdir()} - set(names))):
        raise EvaluationError(
            f"{folder} holds {other[0]}, which is no part of an export: name an empty folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    data = folder.resolve() / names[1]
    texts = [
        YAML.format(
            folder=folder.name,
            task=TASK,
            data=json.dumps(str(data)),
            description=CLOSED_BOOK_SYSTEM.replace('"', '\\"'),
            version=VERSION,
        ),
        "".join(json.dumps(_row(q, search), ensure_ascii=False) + "\n" for q in questions),
        _functions(),
    ]
    paths = [folder / name for name in names]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def _row(
    question: Question, search: Callable[[Question], Sequence[Passage]] | None
) -> dict[str, Any]:
    return {
        "id": question.id,
        "category": question.category,
        "language": question.language,
        "answerable": question.answerable,
        "prompt": _prompt(question, search(question) if search else ()),
        "gold_answer": question.gold_answer,
        "gold_facts": [
            {"fact": fact, "alternatives": list(question.fact_alternatives.get(fact, ()))}
            for fact in question.gold_facts
        ],
    }


def _prompt(question: Question, passages: Sequence[Passage]) -> str:
    parts = [f"[{n}] {p.title}\n{p.text}" for n, p in enumerate(passages, 1)]
    parts += [f"{turn.role.capitalize()}: {turn.text}" for turn in question.history]
    return "\n\n".join([*parts, f"Question: {question.question}\nAnswer:"])


def _functions() -> str:
    """Return the scoring functions with the comparison of facts that they use, as one module."""
    package = resources.files("hpcllm.evaluation")
    comparison = package.joinpath("facts.py").read_text(encoding="utf-8")
    scoring = package.joinpath("lm_eval_task.py").read_text(encoding="utf-8")
    dropped = ("from __future__", "from hpcllm")
    kept = [line for line in scoring.splitlines() if not line.startswith(dropped)]
    return f"{comparison}\n\n" + "\n".join(kept) + "\n"
