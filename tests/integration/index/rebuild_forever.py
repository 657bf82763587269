"""Build one generation after the other until killed; run by test_crash.py.

usage: python -m tests.integration.index.rebuild_forever INDEX_DIR FIRST_VERSION
"""

from __future__ import annotations

import sys
from pathlib import Path

from hpcllm.index.build import build_generation
from hpcllm.index.embedders.hashing import HashEmbedder
from hpcllm.records import Chunk, Document
from tests.unit.index.helpers import corpus, page

PAGES = 40


def state(version: int) -> tuple[list[Document], list[Chunk]]:
    """Return a corpus in which every page says which version it is of; its size varies too."""
    pages = [
        page(
            f"{number}.md", [f"topic{number} is at version{version} now", f"more of topic{number}"]
        )
        for number in range(PAGES - version % 3)
    ]
    return corpus(*pages)


def main() -> None:
    index_dir, version = Path(sys.argv[1]), int(sys.argv[2])
    while True:
        documents, chunks = state(version)
        build_generation(index_dir, chunks, documents, HashEmbedder())
        sys.stdout.write(f"{version}\n")
        sys.stdout.flush()
        version += 1


if __name__ == "__main__":
    main()
