from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpcllm.index.update import update_workspace
from hpcllm.workspace import Workspace

SUBJECTS = {
    "quota": ("storage", "50 GB", "Each user has a quota of 50 GB in home."),
    "purge": ("storage", "45 days", "Files on scratch are deleted after 45 days without access."),
    "walltime": ("slurm-basics", "72 hours", "A job of the cpu partition runs for 72 hours."),
    "gpus": ("gpus", "4 GPUs", "One job of the gpu partition may use 4 GPUs on a node."),
    "office": ("policies", "Wednesday", "The office hour for visitors is on Wednesday at 14:00."),
    "mail": ("accounts", "2 working days", "Account requests are handled in 2 working days."),
}
WORDINGS = (
    "How much {subject} do I get?",
    "please tell me the {subject} rule",
    "{subject}: what number holds here?",
    "I forgot what the pages say about {subject}, remind me",
)


def question_rows() -> list[dict[str, Any]]:
    rows = []
    for subject, (category, fact, sentence) in SUBJECTS.items():
        for number, wording in enumerate(WORDINGS):
            rows.append(
                {
                    "id": f"{subject}-{number}",
                    "question": wording.format(subject=subject),
                    "category": category,
                    "kind": "how_to",
                    "difficulty": "easy",
                    "language": "en",
                    "answerable": True,
                    "gold_pages": [f"docs/{subject}.md"],
                    "gold_facts": [fact],
                    "gold_answer": sentence,
                }
            )
    rows.append(
        {
            "id": "none-0",
            "question": "Who won the chess championship?",
            "category": "policies",
            "kind": "unanswerable",
            "difficulty": "easy",
            "language": "en",
            "answerable": False,
            "gold_answer": "The documentation does not say.",
        }
    )
    return rows


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A workspace with six pages, twenty-five questions and a built index."""
    root = tmp_path / "site"
    docs = root / "corpus" / "docs"
    docs.mkdir(parents=True)
    for subject, (_, _, sentence) in SUBJECTS.items():
        page = f"# About {subject}\n\n{sentence} This page treats {subject}.\n"
        (docs / f"{subject}.md").write_text(page, encoding="utf-8")
    (root / "hpcllm.toml").write_text(
        '[site]\nname = "Test"\n[index]\nembedder = "hashing"\n[model]\nid = "extractive"\n'
        "[retrieval]\nminimum_evidence = 0.05\n"
    )
    (root / "corpus" / "sources.toml").write_text(
        '[[source]]\nname = "docs"\nkind = "folder"\npath = "corpus/docs"\n'
    )
    questions = root / "corpus" / "questions"
    questions.mkdir()
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in question_rows())
    (questions / "all.jsonl").write_text("".join(lines), encoding="utf-8")
    (root / "corpus" / "systems.toml").write_text(
        '[[system]]\nid = "extractive"\nmodel = "extractive"\n'
        '[[system]]\nid = "never-refuses"\nmodel = "extractive"\nminimum_evidence = 0.0\n'
    )
    update_workspace(Workspace.find(root))
    return root
