"""Measure warm search at 10,000 chunks, embedding of the question included.

usage: python -m tests.bench.bench_search [--chunks N] [--rounds N] [--embedder NAME]
           [--question-adapter NAME]

The question adapter is the workspace's unless it is named; --question-adapter "" measures without.

The chunks are paragraphs of the reference corpus in shuffled order, three to a chunk, so that word
statistics are those of real pages. Their vectors are random directions near those of their
paragraphs' words: the cost of a search does not depend on what the vectors mean, and embedding
10,000 chunks would take minutes. Questions are embedded by the real model.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hpcllm.index.build import build_generation
from hpcllm.index.embedders import Embedder, load_embedder, question_vectors
from hpcllm.index.embedders.base import Progress, Vectors, normalise_rows
from hpcllm.index.embedders.onnx import OnnxEmbedder
from hpcllm.index.generation import open_current
from hpcllm.index.search import Searcher
from hpcllm.index.tokenizer import tokenize
from hpcllm.records import Chunk, Document, stable_id
from hpcllm.workspace import Workspace

CHUNKS_PER_PAGE = 12
PARAGRAPHS_PER_CHUNK = 3
BUDGET_MS = 25.0
FORMS = 2
"""Most forms of a question: its own words, and those of its translation."""
QUESTIONS = [
    "How do I request two A100 GPUs for twelve hours?",
    "my job is pending with reason AssocGrpCpuLimit, what does that mean",
    "sbatch --array limit of simultaneously running tasks",
    "disk quota exceeded in /home/$USER although I deleted everything",
    "Which module do I load for MPI with GCC?",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.batch",
    "copy 2 TB from my laptop to scratch",
    "como submeter um job com várias tarefas",
    "conda environment takes ages to start, what should I do instead",
    "ssh: Permission denied (publickey,keyboard-interactive)",
    "what is the longest run time in the gpu partition",
    "run Apptainer container with --nv",
]


class StandIn:
    """Embeds a lot of text at once by hashing; questions by the real model whose name it bears."""

    def __init__(self, real: Embedder) -> None:
        self.question_adapter = getattr(real, "question_adapter", "")
        self._real = real
        self.id, self.sha256, self.dimension = real.id, real.sha256, real.dimension

    def embed(self, texts: Sequence[str], *, progress: Progress | None = None) -> Vectors:
        if len(texts) <= FORMS:
            return self._real.embed(texts, progress=progress)
        directions = np.random.default_rng(0).standard_normal((4096, self.dimension))
        rows = [directions[[hash(t) % 4096 for t in set(tokenize(x))]].sum(axis=0) for x in texts]
        return normalise_rows(np.array(rows, dtype=np.float32))

    def embed_questions(self, texts: Sequence[str]) -> Vectors:
        assert isinstance(self._real, OnnxEmbedder)
        return self._real.embed_questions(texts)

    def count_tokens(self, text: str) -> int:
        return self._real.count_tokens(text)


def paragraphs(corpus_dir: Path) -> list[str]:
    """Return the paragraphs of all pages under ``corpus_dir``."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(corpus_dir.rglob("*.md"))]
    return [part for text in texts for part in text.split("\n\n") if len(part.split()) > 5]


def make_corpus(parts: list[str], count: int) -> tuple[list[Document], list[Chunk]]:
    """Return ``count`` chunks of shuffled paragraphs and their pages."""
    shuffle = random.Random(0)
    documents, chunks = [], []
    while len(chunks) < count:
        path = f"page{len(documents)}.md"
        picks = [shuffle.sample(parts, PARAGRAPHS_PER_CHUNK) for _ in range(CHUNKS_PER_PAGE)]
        texts = ["\n\n".join(pick) for pick in picks][: count - len(chunks)]
        documents.append(Document("bench", path, texts[0][:40], "\n\n".join(texts)))
        for position, text in enumerate(texts):
            headings = (text[:30],)
            chunk_id = stable_id("bench", path, (*headings, str(position)), text)
            tokens = len(text.split())
            chunks.append(
                Chunk(chunk_id, "bench", path, path, headings, "", text, position, tokens)
            )
    return documents, chunks


def measure(searcher: Searcher, rounds: int) -> list[float]:
    """Return milliseconds of each search after two rounds of warming up."""
    times = []
    for number in range(rounds + 2):
        for question in QUESTIONS:
            start = time.perf_counter()
            searcher.search(question)
            if number >= 2:
                times.append((time.perf_counter() - start) * 1000)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--embedder", default="all-minilm-l6-v2")
    space = Workspace.find()
    parser.add_argument("--question-adapter", default=space.settings.index.question_adapter)
    options = parser.parse_args()
    embedder = load_embedder(
        options.embedder,
        models_dir=space.models_dir,
        threads=1,
        question_adapter=options.question_adapter,
    )
    parts = paragraphs(space.corpus_dir)
    documents, chunks = make_corpus(parts, options.chunks)
    with tempfile.TemporaryDirectory() as folder:
        index_dir = Path(folder)
        report = build_generation(index_dir, chunks, documents, StandIn(embedder))
        with open_current(index_dir) as generation:
            searcher = Searcher(generation, StandIn(embedder))
            times = measure(searcher, options.rounds)
            alone = []
            for question in QUESTIONS * 5:
                start = time.perf_counter()
                question_vectors(embedder, [question])
                alone.append((time.perf_counter() - start) * 1000)
    p50, p95 = np.percentile(times, [50, 95])
    sys.stdout.write(
        f"search, {len(chunks)} chunks, {len(times)} questions, warm: p50 {p50:.1f} ms, "
        f"p95 {p95:.1f} ms (budget {BUDGET_MS:g} ms), of which embedding p50 "
        f"{np.percentile(alone, 50):.1f} ms; index without embedding {report.seconds:.1f} s\n"
    )


if __name__ == "__main__":
    main()
