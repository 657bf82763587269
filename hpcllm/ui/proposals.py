"""Evaluation questions proposed from answers that were not good enough.

Role: appends one line to a file of proposals. Staff complete a line (facts, answer) and move it
into ``corpus/questions``; a proposal by itself is no part of the evaluation.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from filelock import FileLock

if TYPE_CHECKING:
    from pathlib import Path

    from hpcllm.server.stored import StoredAnswer

PROPOSALS_FILE = "questions.jsonl"
GOLD_PAGES = 3
"""Pages proposed as those that hold the answer."""


def propose_question(path: Path, answer: StoredAnswer) -> bool:
    """Append an answer's question to a file of proposals.

    Args:
        path: the file; it and its folder are made.
        answer: the answer that was not good enough.

    Returns:
        Whether it was appended; False where it is there already.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        row = proposal(answer)
        if path.exists() and row["id"] in _ids(path):
            return False
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return True


def proposal(answer: StoredAnswer) -> dict[str, Any]:
    """Return an answer's question in the form of ``corpus/questions``, to be completed.

    Where the assistant abstained, the question is proposed as one without an answer.
    """
    cited = answer.citations or answer.passages
    pages = list(dict.fromkeys(f"{page['source']}/{page['path']}" for page in cited))
    row: dict[str, Any] = {
        "id": f"staff-{answer.receipt_id}",
        "question": answer.standalone_question or answer.question,
        "category": "",
        "kind": "how_to",
        "difficulty": "medium",
        "answerable": not answer.abstained,
        "gold_pages": [] if answer.abstained else pages[:GOLD_PAGES],
        "gold_facts": [],
        "gold_commands": [],
        "gold_answer": "",
    }
    return {**row, "cluster": answer.cluster} if answer.cluster else row


def _ids(path: Path) -> set[str]:
    with path.open(encoding="utf-8") as file:
        return {json.loads(line)["id"] for line in file if line.strip()}
