"""The journal of answers: append-only, one JSON line an answer, synced to disk line by line.

Role: makes a run resumable after a kill at any moment and spares answering twice. One file per
fingerprint of a system; a line's key is the hash of what the question looks like to the system.
A line that a kill cut short is dropped when the file is opened.
"""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Any, Self

from hpcllm.errors import EvaluationError
from hpcllm.evaluation.fingerprints import asked, json_sha256

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hpcllm.records import Question

logger = logging.getLogger(__name__)

LOCK_WAIT_S = 1.0


def answer_key(question: Question) -> str:
    """Return the key of a question's answer: 32 hex digits over what the system sees of it."""
    return json_sha256(asked(question))[:32]


class AnswerCache:
    """Answers of one system by key.

    Args:
        folder: where the files are.
        produced_by: everything that decides the answers; another fingerprint is another file.

    Attributes:
        path: the file.
        entries: what is known, by key.
    """

    def __init__(self, folder: Path, produced_by: Mapping[str, Any]) -> None:
        self.path = folder / f"{json_sha256(produced_by)[:24]}.jsonl"
        self.entries: dict[str, dict[str, Any]] = {}
        self._produced_by = produced_by
        self._stream: Any = None
        self._lock: Any = None

    def __enter__(self) -> Self:
        from filelock import FileLock, Timeout

        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self.path.with_suffix(".lock"))
        try:
            self._lock.acquire(timeout=LOCK_WAIT_S)
        except Timeout as exc:
            raise EvaluationError(
                f"another run is answering for this system (it holds {self.path}): wait for it, "
                "or stop it; what it has answered is kept"
            ) from exc
        self._load()
        self._stream = self.path.open("a", encoding="utf-8")
        if not self.path.stat().st_size:
            self._append({"produced_by": self._produced_by})
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._lock.release()

    def _load(self) -> None:
        """Read the file and cut off what a kill left of an unfinished last line."""
        if not self.path.exists():
            return
        data = self.path.read_bytes()
        end = data.rfind(b"\n") + 1
        if end < len(data):
            logger.info("dropping an unfinished line of %s", self.path)
            os.truncate(self.path, end)
        for number, line in enumerate(data[:end].split(b"\n")[:-1], 1):
            try:
                entry = json.loads(line)
            except ValueError:
                logger.warning("%s line %d is damaged and left out", self.path, number)
                continue
            if "key" in entry:
                self.entries[entry["key"]] = entry

    def put(self, key: str, entry: Mapping[str, Any]) -> None:
        """Keep an entry; it is on disk when this returns."""
        line = {"key": key, **entry}
        self._append(line)
        self.entries[key] = line

    def _append(self, line: Mapping[str, Any]) -> None:
        self._stream.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())
