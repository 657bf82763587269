"""A builder that is killed at any moment leaves a complete generation in use."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hpcllm.index.build import build_generation
from hpcllm.index.embedders.hashing import HashEmbedder
from hpcllm.index.generation import list_generations, open_current
from hpcllm.index.search import Searcher
from tests.integration.index.rebuild_forever import state

ROOT = Path(__file__).parents[3]
KILLS = 20
VERSION = re.compile(r"version(\d+)")


def versions_in(index_dir: Path) -> set[int]:
    """Open the index anew and return the versions that its passages are of."""
    with open_current(index_dir) as generation:
        generation.verify()
        passages = Searcher(generation, HashEmbedder()).search("which version is topic7 at", k=30)
        return {int(v) for passage in passages for v in VERSION.findall(passage.text)}


@contextmanager
def builder(index_dir: Path, version: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.integration.index.rebuild_forever"]
    process = subprocess.Popen(
        [*command, str(index_dir), str(version)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


class Reader(threading.Thread):
    """Searches without a pause and notes everything that is not one whole version."""

    def __init__(self, index_dir: Path) -> None:
        super().__init__()
        self.index_dir = index_dir
        self.stop = threading.Event()
        self.searches = 0
        self.wrong: list[object] = []

    def run(self) -> None:
        while not self.stop.is_set():
            try:
                versions = versions_in(self.index_dir)
            except Exception as exc:
                self.wrong.append(exc)
                raise
            if len(versions) != 1:
                self.wrong.append(versions)
            self.searches += 1


@pytest.mark.slow
def test_killed_at_twenty_random_moments_search_answers_from_one_whole_version(
    tmp_path: Path,
) -> None:
    moments = random.Random(20)
    index_dir = tmp_path / "index"
    documents, chunks = state(0)
    build_generation(index_dir, chunks, documents, HashEmbedder())
    reader = Reader(index_dir)
    reader.start()
    version = 1
    try:
        for _ in range(KILLS):
            with builder(index_dir, version) as process:
                assert process.stdout is not None
                version = int(process.stdout.readline()) + 1  # it is past its imports
                time.sleep(moments.uniform(0, 0.15))
                process.kill()
                done = [int(line) for line in process.stdout.read().split()]
            last = max([version - 1, *done])
            served = versions_in(index_dir)
            # The kill may fall between the flip of ``current`` and the line that reports it.
            assert served in ({last}, {last + 1})
            version = max(served) + 1
    finally:
        reader.stop.set()
        reader.join()
    assert reader.wrong == []
    assert reader.searches > KILLS


def test_the_rest_of_a_killed_build_is_gone_after_the_next(tmp_path: Path) -> None:
    index_dir = tmp_path / "index"
    with builder(index_dir, 1) as process:
        assert process.stdout is not None
        process.stdout.readline()
    documents, chunks = state(10_000)
    report = build_generation(index_dir, chunks, documents, HashEmbedder(), keep=2)
    assert versions_in(index_dir) == {10_000}
    assert len(list_generations(index_dir)) <= 2
    names = {path.name for path in index_dir.iterdir()}
    assert names == {"build.lock", "current", "inputs", *list_generations(index_dir)}
    assert report.generation in names
