"""Small inputs of every format with the output that a person has looked at.

Each folder of ``tests/data/golden`` is one site; ``page.md.expected`` beside ``page.md`` holds what
its reader gives. After a reader was changed on purpose, record anew and read the difference:

    python -m tests.golden
    git diff tests/data/golden
"""

from __future__ import annotations

import sys
from pathlib import Path

from hpcllm.corpus.readers import RawFile, is_readable, read

DATA = Path(__file__).parent / "data" / "golden"
PARTS = ("snippets", "parts", "_includes")
"""Folders of files that are parts of other inputs."""


def inputs() -> list[Path]:
    """Return all inputs, sorted."""
    found = (path for path in DATA.rglob("*") if path.is_file() and is_readable(path.name))
    return sorted(path for path in found if not set(path.parts) & set(PARTS))


def expected_path(path: Path) -> Path:
    """Return the file that holds the expected output of an input."""
    return path.with_name(f"{path.name}.expected")


def rendered(path: Path) -> str:
    """Return what the reader makes of an input, as it is compared."""
    root = DATA / path.relative_to(DATA).parts[0]
    raw = RawFile(path.relative_to(root).as_posix(), path.read_bytes(), root)
    result = read(raw)
    head = [f"title: {result.title}"]
    head += [f"language: {result.language}"] if result.language else []
    head += (
        [f"status: {result.status} {result.notice}".rstrip()] if result.status != "current" else []
    )
    head += [f"{key}: {value}" for key, value in sorted(result.metadata.items())]
    head += [f"warning: {warning}" for warning in result.warnings]
    head += [f"includes: {', '.join(result.includes)}"] if result.includes else []
    return "\n".join([*head, "-" * 20, result.text.rstrip("\n"), ""])


def record() -> int:
    """Write the expected outputs that differ, and return how many."""
    changed = 0
    for path in inputs():
        text = rendered(path)
        target = expected_path(path)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")
            sys.stdout.write(f"recorded {target.relative_to(DATA)}\n")
            changed += 1
    return changed


if __name__ == "__main__":
    sys.stdout.write(f"{record()} of {len(inputs())} outputs recorded; read the difference\n")
