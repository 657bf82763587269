from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcllm.errors import TrainingError
from hpcllm.training.assembly import Dropped
from hpcllm.training.handwritten import read_handwritten, resolve
from tests.unit.training.helpers import STORAGE, document

ROW = {
    "id": "t-1",
    "kind": "table_lookup",
    "question": "how much space in my home",
    "answer": "You get 50 GB.",
    "facts": ["50 GB"],
    "source": "docs",
    "path": "storage.md",
    "heading": "Scratch",
}


def write(folder: Path, *rows: object) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "q.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


def test_the_answer_rests_on_the_lines_that_hold_its_facts(tmp_path: Path) -> None:
    (question,) = read_handwritten(write(tmp_path, ROW))
    seed = resolve(question, document(STORAGE, "storage.md"))
    assert seed.kind == "hand_table_lookup"
    assert seed.statements[0].quote == "| home | 50 GB | nightly |"
    assert seed.statements[0].text == "You get 50 GB."


def test_a_fence_at_the_end_becomes_the_code(tmp_path: Path) -> None:
    answer = "Run:\n```bash\ndu -h --max-depth=1 ~ | sort -h\n```"
    row = {**ROW, "answer": answer, "facts": ["--max-depth=1"], "heading": "Find large folders"}
    (question,) = read_handwritten(write(tmp_path, row))
    (statement,) = resolve(question, document(STORAGE, "storage.md")).statements
    assert (statement.text, statement.code_language) == ("Run:", "bash")
    assert statement.code == "du -h --max-depth=1 ~ | sort -h"


def test_unanswerable_kinds_have_no_statement(tmp_path: Path) -> None:
    (question,) = read_handwritten(write(tmp_path, {**ROW, "kind": "unanswerable", "answer": ""}))
    assert resolve(question, document(STORAGE, "storage.md")).statements == ()


def test_a_page_that_is_gone_is_named(tmp_path: Path) -> None:
    (question,) = read_handwritten(write(tmp_path, ROW))
    with pytest.raises(Dropped, match="page is not in the index"):
        resolve(question, None)


def test_all_wrong_lines_are_listed(tmp_path: Path) -> None:
    folder = write(tmp_path, {**ROW, "answer": " "}, "[]", {**ROW, "pth": "x"}, "{")
    with pytest.raises(TrainingError) as caught:
        read_handwritten(folder)
    text = str(caught.value)
    assert text.startswith("4 line(s)")
    assert "line 1: 'answer' must be a text that is not empty, got ' '" in text
    assert "line 3: unknown field 'pth'; did you mean 'path'?" in text


def test_comments_in_code_do_not_end_the_section(tmp_path: Path) -> None:
    text = "# Page\n\n## Unmount\n\nRun:\n\n```bash\n# Linux\nfusermount -u ~/far\n```\n\n## Next\n\nfar\n"
    row = {**ROW, "answer": "`fusermount -u ~/far`", "facts": [], "heading": "Unmount"}
    (question,) = read_handwritten(write(tmp_path, row))
    (statement,) = resolve(question, document(text, "storage.md")).statements
    assert "fusermount -u ~/far" in statement.quote
