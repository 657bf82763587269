"""Measure a first ingest beside the pipeline that tutorials show, with the same embedder.

usage: python -m tests.bench.bench_ingest [FOLDER] [--files N] [--rounds N]

The tutorial's pipeline: every file as raw text, RecursiveCharacterTextSplitter (1,000 characters,
100 overlap), the same ONNX model in batches of 32 in file order with all threads inside the
operators (what onnxruntime does when it is not told otherwise), a flat FAISS index and bm25s with
an English stemmer. Ours reads, cuts, screens, embeds and writes a complete generation to disk. Both
run in turn, in one process, on the same files. FOLDER defaults to the reference handbook.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hpcllm.scaffold import scaffold
from hpcllm.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = (".md", ".rst", ".shtml", ".html", ".txt", ".1", ".5", ".8")
BATCH = 32
WINDOW = 256


def files_of(folder: Path, limit: int) -> list[Path]:
    """Return the text files of a folder, evenly picked where there are more than ``limit``."""
    found = sorted(p for p in folder.rglob("*") if p.suffix in SUFFIXES and p.is_file())
    step = max(1, len(found) // limit)
    return found[::step][:limit]


def tutorial(files: list[Path], model_dir: Path) -> tuple[int, int]:
    """Run the tutorial's pipeline; return its chunks and their tokens."""
    import bm25s
    import faiss
    import onnxruntime
    import Stemmer
    from langchain_text_splitters import RecursiveCharacterTextSplitter
    from tokenizers import Tokenizer

    splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=100)
    texts = [
        part
        for file in files
        for part in splitter.split_text(file.read_text(encoding="utf-8", errors="replace"))
    ]
    tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
    tokenizer.enable_truncation(WINDOW)
    tokenizer.enable_padding()
    session = onnxruntime.InferenceSession(model_dir / "model.onnx")
    names = {item.name for item in session.get_inputs()}
    vectors, tokens = [], 0
    for start in range(0, len(texts), BATCH):
        encoded = tokenizer.encode_batch(texts[start : start + BATCH])
        ids = np.array([e.ids for e in encoded])
        mask = np.array([e.attention_mask for e in encoded])
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = session.run(None, {k: v for k, v in feed.items() if k in names})[0]
        pooled = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        vectors.append(pooled / np.linalg.norm(pooled, axis=1, keepdims=True))
        tokens += int(mask.sum())
    index = faiss.IndexFlatIP(vectors[0].shape[1])
    index.add(np.concatenate(vectors).astype(np.float32))
    retriever = bm25s.BM25()
    stemmed = bm25s.tokenize(texts, stemmer=Stemmer.Stemmer("english"), show_progress=False)
    retriever.index(stemmed, show_progress=False)
    return len(texts), tokens


def ours(files: list[Path], folder: Path) -> tuple[int, int]:
    """Make a site of these files and ingest it; return its chunks and their tokens."""
    from hpcllm.index.generation import open_current
    from hpcllm.index.update import update_workspace

    docs = folder / "docs"
    docs.mkdir()
    for number, file in enumerate(files):
        os.link(file, docs / f"{number:04}-{file.name}")
    scaffold(folder / "site", docs=docs)
    space = Workspace.find(folder / "site")
    report = update_workspace(space)
    with open_current(space.index_dir) as generation:
        rows = range(report.chunks)
        tokens = sum(chunk.tokens for chunk in generation.store.chunks_at(rows).values())
    return report.chunks, tokens


def timed(action: Callable[[], tuple[int, int]]) -> tuple[float, int, int]:
    """Return seconds, chunks and tokens of one run."""
    start = time.perf_counter()
    chunks, tokens = action()
    return time.perf_counter() - start, chunks, tokens


def main(arguments: list[str] | None = None) -> int:
    """Run both in turn and print their rates and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "corpus" / "handbook")
    parser.add_argument("--files", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    files = files_of(options.folder, options.files)
    model_dir = Workspace.find(ROOT).models_dir / "all-minilm-l6-v2"
    seconds: dict[str, list[float]] = {"tutorial": [], "hpcllm": []}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(dir=options.folder.parent) as place:
            runs = {
                "tutorial": timed(lambda: tutorial(files, model_dir)),
                "hpcllm": timed(lambda place=place: ours(files, Path(place))),
            }
        for name, (taken, chunks, tokens) in runs.items():
            seconds[name].append(taken)
            sys.stdout.write(
                f"{name}: {chunks} chunks, {tokens / max(chunks, 1):.0f} tokens each, "
                f"{taken:.1f} s, {chunks / taken:.1f} chunks/s, {tokens / taken:.0f} tokens/s\n"
            )
    ratio = statistics.median(seconds["tutorial"]) / statistics.median(seconds["hpcllm"])
    sys.stdout.write(f"{len(files)} files: hpcllm is {ratio:.2f} times as fast as the tutorial\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
