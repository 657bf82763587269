"""Hashes of what makes answers: code, questions, files; and versions for the header."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hpcllm

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hpcllm.records import Question

PACKAGE = Path(hpcllm.__file__).parent
ANSWERING_PARTS = (
    "assistant",
    "index/embedders",
    "index/dense.py",
    "index/fusion.py",
    "index/lexical.py",
    "index/passages.py",
    "index/search.py",
    "index/text.py",
    "index/tokenizer.py",
    "models/backends",
)
"""Parts of the package whose code decides what is answered from a given index; a change of it makes
answers anew."""
ENGINES = ("numpy", "onnxruntime", "faiss-cpu", "bm25s", "xllamacpp", "tokenizers")


def json_sha256(value: Any) -> str:
    """Return the SHA-256 of a value's JSON form with sorted keys, 64 hex digits."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hex digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@lru_cache(maxsize=1)
def code_sha256() -> str:
    """Return a hash over the source of everything that decides what is answered."""
    digest = hashlib.sha256()
    for part in ANSWERING_PARTS:
        path = PACKAGE / part
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        for file in files:
            digest.update(f"{file.relative_to(PACKAGE)}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def asked(question: Question) -> dict[str, Any]:
    """Return what a system sees of a question."""
    return {
        "id": question.id,
        "question": question.question,
        "history": [[turn.role, turn.text] for turn in question.history],
        "cluster": question.cluster,
    }


def questions_sha256(questions: Iterable[Question]) -> str:
    """Return a hash over whole questions, gold answers included, in their order."""
    from dataclasses import asdict

    return json_sha256([asdict(question) for question in questions])


def versions() -> dict[str, str]:
    """Return the versions of this package, Python and the engines that are installed."""
    found = {"hpcllm": hpcllm.__version__, "python": platform.python_version()}
    for name in ENGINES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def git_commit() -> str:
    """Return the commit of the checkout that this package runs from, ``-dirty`` where changed."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"],
            cwd=PACKAGE,
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
