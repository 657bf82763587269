"""Embedders: text in, unit vectors out; each back end lives in a file that is imported on use."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from hpcllm.errors import ModelError, nearest
from hpcllm.index.embedders.base import Embedder, embed_query, question_vectors

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Embedder", "embed_query", "load_embedder", "question_file", "question_vectors"]

logger = logging.getLogger(__name__)

HASHING_ID = "hashing"
"""Name of the embedder that needs no model file; for tests and for machines without one."""

HTTP_PREFIX = "http:"
"""``http:MODEL@BASE_URL`` names a model behind an OpenAI-compatible embeddings endpoint."""

ONNX_FILES = ("model.onnx", "tokenizer.json")
"""Files that an ONNX embedder's folder under the models folder must hold."""


def question_file(adapter: str) -> str:
    """Return the name of the file, beside ``model.onnx``, with a question adapter merged in."""
    return f"model.{adapter}.onnx"


def load_embedder(
    name: str, *, models_dir: Path, threads: int = 0, question_adapter: str = ""
) -> Embedder:
    """Return the embedder called ``name``.

    Args:
        name: ``hashing``, ``http:MODEL@BASE_URL``, or the id of a model whose files lie in
            ``models_dir/<id>/``.
        models_dir: folder of downloaded models.
        threads: threads for embedding; 0 leaves the choice to the engine.
        question_adapter: adapter with which questions are read, of ONNX embedders only; where its
            file is missing they are read as passages, and a warning says so. Whoever embeds no
            questions leaves it empty and saves the memory.

    Raises:
        ModelError: the name is unknown or a file is missing (the message says how to get it), or
            the files are damaged.
    """
    if name == HASHING_ID:
        from hpcllm.index.embedders.hashing import HashEmbedder

        return HashEmbedder()
    if name.startswith(HTTP_PREFIX):
        from hpcllm.index.embedders.http import HttpEmbedder

        model, at, base_url = name.removeprefix(HTTP_PREFIX).partition("@")
        if not (model and at and base_url):
            raise ModelError(
                f"embedder {name!r} is not complete: expected http:MODEL@BASE_URL, such as "
                "http:bge-m3@http://localhost:8000/v1"
            )
        return HttpEmbedder(model, base_url, api_key=os.environ.get("HPCLLM_API_KEY"))
    return _load_onnx(name, models_dir, threads, question_adapter)


def _load_onnx(name: str, models_dir: Path, threads: int, question_adapter: str) -> Embedder:
    folder = models_dir / name
    missing = [file for file in ONNX_FILES if not (folder / file).is_file()]
    if missing:
        known = [path.name for path in models_dir.iterdir()] if models_dir.is_dir() else []
        hint = nearest(name, [*known, HASHING_ID])
        raise ModelError(
            f"embedder {name!r} lacks {' and '.join(missing)} in {folder}{hint}; "
            f"fetch it with: hpcllm models pull {name}"
        )
    from hpcllm.index.embedders.onnx import OnnxEmbedder

    question_path = folder / question_file(question_adapter) if question_adapter else None
    if question_path is not None and not question_path.is_file():
        logger.warning(
            "question adapter %s is not in use: %s does not exist; where the catalog has it, make "
            "it with: hpcllm models pull %s",
            *(question_adapter, question_path, name),
        )
        question_path = None
    return OnnxEmbedder(
        *(folder / file for file in ONNX_FILES),
        threads=threads,
        id=name,
        question_path=question_path,
        question_adapter=question_adapter if question_path else "",
    )
