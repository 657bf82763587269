from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hpcllm.index.build import BuildReport, build_generation
from hpcllm.index.embedders.hashing import HashEmbedder
from hpcllm.index.generation import Generation, open_current
from hpcllm.index.search import Searcher
from hpcllm.records import Chunk, Document
from tests.unit.index.helpers import corpus

Pages = tuple[Document, list[Chunk]]
Build = Callable[..., BuildReport]


@pytest.fixture
def index_dir(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def build(index_dir: Path) -> Build:
    """Build a generation of the given pages."""

    def build_pages(*pages: Pages, embedder: Any = None, **options: Any) -> BuildReport:
        documents, chunks = corpus(*pages)
        return build_generation(index_dir, chunks, documents, embedder or HashEmbedder(), **options)

    return build_pages


@pytest.fixture
def opened(index_dir: Path) -> Iterator[Callable[[], Generation]]:
    """Open the current generation; closed when the test ends."""
    generations: list[Generation] = []

    def open_it() -> Generation:
        generations.append(open_current(index_dir))
        return generations[-1]

    yield open_it
    for generation in generations:
        generation.close()


@pytest.fixture
def searcher(build: Build, opened: Callable[[], Generation]) -> Callable[..., Searcher]:
    """Build the given pages and search in them."""

    def of(*pages: Pages, **options: Any) -> Searcher:
        build(*pages, **options)
        return Searcher(opened(), HashEmbedder())

    return of
