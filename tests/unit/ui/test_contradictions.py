from __future__ import annotations

from pathlib import Path
from typing import Any

from hpcllm.index.build import build_generation
from hpcllm.index.embedders.hashing import HashEmbedder
from hpcllm.index.generation import Generation
from hpcllm.ui.contradictions import Contradiction, find_contradictions
from tests.unit.index.helpers import corpus, page

LIMIT = "Each user of the cluster may run at most {n} jobs at the same time."


def found(folder: Path, *pages: Any) -> list[Contradiction]:
    documents, chunks = corpus(*pages)
    report = build_generation(folder, chunks, documents, HashEmbedder())
    with Generation(folder / report.generation) as generation:
        return find_contradictions(generation)


def test_the_same_sentence_with_another_number_is_reported(tmp_path: Path) -> None:
    (pair,) = found(
        tmp_path, page("a.md", [LIMIT.format(n=100)]), page("b.md", [LIMIT.format(n=200)])
    )
    assert {pair.first.path, pair.second.path} == {"a.md", "b.md"}
    assert {pair.first_sentence, pair.second_sentence} == {LIMIT.format(n=100), LIMIT.format(n=200)}


def test_pages_marked_as_old_about_other_clusters_or_in_code_may_differ(tmp_path: Path) -> None:
    one = page("a.md", [LIMIT.format(n=100)], cluster="meridian")
    old = page("b.md", [LIMIT.format(n=200)], status="outdated")
    other = page("c.md", [LIMIT.format(n=300)], cluster="halley")
    example = page("d.md", [f"```\n{LIMIT.format(n=400)}\n```"])
    assert found(tmp_path, one, old, other, example) == []


def test_sentences_about_something_else_may_differ(tmp_path: Path) -> None:
    one = page("a.md", [LIMIT.format(n=100)])
    two = page("b.md", ["Each user of the archive can keep up to 200 files on tape for 5 years."])
    assert found(tmp_path, one, two) == []
