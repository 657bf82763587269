"""Check question files: ``python -m hpcllm.evaluation.check FILE.jsonl …``.

Each file is checked by itself and, for near duplicates, against all files of its folder.
Exit code 1 when anything is wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hpcllm.evaluation.questions import check_questions, load_questions


def main(arguments: list[str]) -> int:
    """Print what is wrong with the files named, or with the reference questions."""
    from hpcllm.workspace import reference_root

    corpus = reference_root() / "corpus"
    files = [Path(name).resolve() for name in arguments] or sorted(
        (corpus / "questions").glob("*.jsonl")
    )
    own = {question.id for file in files for question in load_questions(file)}
    problems = check_questions(load_questions(corpus / "questions"), corpus)
    shown = [line for line in problems if any(name in own for name in line.split(":")[0].split())]
    sys.stdout.write("".join(f"{line}\n" for line in shown))
    sys.stdout.write(f"{len(own)} questions, {len(shown)} problems\n")
    return int(bool(shown))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
