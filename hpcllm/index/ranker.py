"""Rank pieces of text by how well they answer a question: a small cross-encoder.

Role: question and piece are read together, which tells an answer from a look-alike better than
comparing two vectors that know nothing of each other. Too slow for a whole corpus; it ranks the
sentences, table rows and code blocks of the passages that the index found.

The encoder is all-MiniLM-L6-v2 with a low-rank adapter merged in (``training/retriever``). Its
score is a learned sum of the cosine of the two halves, the mean over the question's tokens of
their best match in the piece (late interaction, Khattab and Zaharia 2020), and a small network on
both; it approximates the log-odds that the piece holds the answer.
"""

from __future__ import annotations

import hashlib
import logging
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hpcllm.errors import ModelError
from hpcllm.index.embedders.base import length_order, normalise_rows
from hpcllm.index.embedders.onnx import open_session

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Values = NDArray[np.float32]
    Ids = list[int]

logger = logging.getLogger(__name__)

BASE_ID = "all-minilm-l6-v2"
"""Catalog id of the encoder that is adapted."""
HEAD_FILE = "head.safetensors"
QUESTION_TOKENS = 48
"""Longest question that is read: of a longer one its two ends."""
TITLE_TOKENS, CONTEXT_TOKENS, TEXT_TOKENS = 10, 16, 40
"""What is read of a piece: the start of its page's title, the end of what names it, its start."""
BATCH_TOKENS = 512
"""Padded tokens of a batch."""
START, END, STOP = 101, 102, 1012
"""BERT's ``[CLS]``, ``[SEP]`` and full stop."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What can answer by itself.

    Attributes:
        title: title of its page.
        context: what names it without being part of it: headings, the sentence before.
        text: what it says.
    """

    title: str
    context: str
    text: str


class Ranker(Protocol):
    """Scores pieces of text against a question."""

    @property
    def id(self) -> str:
        """Name of the ranker."""
        ...

    @property
    def sha256(self) -> str:
        """Hash of its weights."""
        ...

    def score(self, question: str, pieces: Sequence[Piece]) -> Values:
        """Return ``(len(pieces),)`` float32, about the log-odds that each answers."""
        ...


@dataclass(frozen=True, slots=True)
class Head:
    """From token vectors to a score; see :func:`apply_head`.

    Attributes:
        mix: ``(3,)`` weights of the cosine and of the late interaction, and a constant.
        inner: ``(hidden, 3 * dimension)`` weights and ``(hidden,)`` bias of the network.
        outer: ``(1, hidden)`` weights and ``(1,)`` bias of its output.
    """

    mix: Values
    inner: tuple[Values, Values]
    outer: tuple[Values, Values]

    @classmethod
    def read(cls, tensors: dict[str, Any]) -> Head:
        """Take the arrays ``w``, ``l1.weight``, ``l1.bias``, ``l2.weight`` and ``l2.bias``.

        Raises:
            ModelError: one is missing.
        """
        try:
            taken = {
                name: np.asarray(tensors[name], dtype=np.float32)
                for name in ("w", "l1.weight", "l1.bias", "l2.weight", "l2.bias")
            }
        except KeyError as exc:
            raise ModelError(
                f"the ranker's head lacks the array {exc}; put it there again"
            ) from exc
        return cls(
            taken["w"],
            (taken["l1.weight"], taken["l1.bias"]),
            (taken["l2.weight"], taken["l2.bias"]),
        )


class OnnxRanker:
    """The cross-encoder in onnxruntime; thread-safe.

    Args:
        model_path: the encoder with its adapter merged in.
        tokenizer_path: its ``tokenizer.json``.
        head: what turns token vectors into a score.
        threads: batches computed at the same time; 0 takes 1.
        id: name of the ranker.

    Raises:
        ModelError: a file is missing or damaged.
    """

    def __init__(
        self, model_path: Path, tokenizer_path: Path, head: Head, *, threads: int = 1, id: str
    ) -> None:
        from hpcllm.index.embedders.onnx import open_tokenizer

        self.id = id
        self._path = model_path
        self._head = head
        self._threads = max(1, threads)
        self._tokenizer = open_tokenizer(tokenizer_path, id)
        self._tokenizer.no_truncation()
        self._session = open_session(model_path, id)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the encoder's file and of the head's arrays, computed when first asked for."""
        with self._path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
        head = self._head
        for array in (head.mix, *head.inner, *head.outer):
            digest.update(array.tobytes())
        return digest.hexdigest()

    def score(self, question: str, pieces: Sequence[Piece]) -> Values:
        """Return ``(len(pieces),)`` float32, about the log-odds that each answers.

        Raises:
            ModelError: the engine failed, most often for lack of memory.
        """
        scores = np.zeros(len(pieces), dtype=np.float32)
        if not pieces:
            return scores
        pairs = [token_ids(self._tokenizer, question, piece) for piece in pieces]
        first, seconds = pairs[0][0], [second for _, second in pairs]
        batches = list(_batches([len(first) + len(ids) for ids in seconds]))
        workers = min(self._threads, len(batches))

        def run(rows: list[int]) -> tuple[list[int], Values]:
            return rows, self._run(first, [seconds[row] for row in rows])

        if workers <= 1:
            results = list(map(run, batches))
        else:
            with ThreadPoolExecutor(workers, thread_name_prefix="rank") as pool:
                results = list(pool.map(run, batches))
        for rows, values in results:
            scores[rows] = values
        return scores

    def _run(self, first: Ids, seconds: Sequence[Ids]) -> Values:
        width = len(first) + max(map(len, seconds))
        ids = np.zeros((len(seconds), width), dtype=np.int64)
        mask, kinds = np.zeros_like(ids), np.zeros_like(ids)
        for row, second in enumerate(seconds):
            length = len(first) + len(second)
            ids[row, :length] = [*first, *second]
            mask[row, :length] = 1
            kinds[row, len(first) : length] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": kinds}
        try:
            hidden = self._session.run(None, feed)[0]  # (batch, tokens, dimension)
        except Exception as exc:  # onnxruntime's own classes have no common root but this
            raise ModelError(
                f"{self._path} failed on {len(seconds)} text(s) of {width} tokens: {exc}. "
                "Free some memory or use fewer threads"
            ) from exc
        return apply_head(self._head, hidden, len(first), mask)


def token_ids(tokenizer: Any, question: str, piece: Piece) -> tuple[Ids, Ids]:
    """Return the two halves that the encoder reads, special tokens included.

    Args:
        tokenizer: the encoder's ``tokenizers.Tokenizer``, neither padding nor cutting.
        question: as asked.
        piece: what is scored.
    """

    def tokens(text: str) -> Ids:
        ids: Ids = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    title = tokens(piece.title)[:TITLE_TOKENS]
    context = tokens(piece.context)[-CONTEXT_TOKENS:]
    said = tokens(piece.text)[:TEXT_TOKENS]
    first = [START, *_ends(tokens(question), QUESTION_TOKENS), END]
    return first, [*title, STOP, *context, STOP, *said, END]


def load_ranker(name: str, *, models_dir: Path, threads: int = 0) -> Ranker | None:
    """Return the ranker called ``name``, or None where its encoder is not on this machine.

    Args:
        name: id of an adapter that ships, whose folder holds ``head.safetensors``; the encoder
            with the adapter merged in lies beside the embedder's.
        models_dir: folder of downloaded models.
        threads: batches computed at the same time; 0 takes 1.

    Raises:
        ModelError: the adapter is unknown, or a file is damaged.
    """
    from hpcllm.models.adapters import read_tensors
    from hpcllm.models.download import adapter_folder

    folder = models_dir / BASE_ID
    model_path = folder / f"model.{name}.onnx"
    if not model_path.is_file():
        logger.warning(
            "ranker %s is not in use: %s does not exist; where the catalog has it, make it with: "
            "hpcllm models pull %s",
            *(name, model_path, BASE_ID),
        )
        return None
    head = Head.read(read_tensors(adapter_folder(name), HEAD_FILE))
    return OnnxRanker(model_path, folder / "tokenizer.json", head, threads=threads, id=name)


def apply_head(head: Head, hidden: Values, first: int, mask: NDArray[np.int64]) -> Values:
    """Turn token vectors into scores.

    Args:
        head: the learned weights.
        hidden: ``(batch, tokens, dimension)`` float32, the encoder's last layer.
        first: tokens of the question's half, the same in every row; ``[CLS]`` is the first.
        mask: ``(batch, tokens)``, 1 where a token stands.

    Returns:
        ``(batch,)`` float32.
    """
    batch, _, dimension = hidden.shape
    rows = normalise_rows(hidden.reshape(-1, dimension)).reshape(hidden.shape)
    asked = rows[:, 1:first]
    said = rows[:, first:]
    there = mask[:, first:, None].astype(np.float32)
    left = normalise_rows(asked.sum(axis=1))
    right = normalise_rows((said * there).sum(axis=1))
    match = asked @ said.transpose(0, 2, 1)  # (batch, question tokens, piece tokens)
    best = np.where(there.transpose(0, 2, 1) > 0, match, -1).max(axis=2).mean(axis=1)
    root = math.sqrt(20)
    features = np.concatenate([left * right * 20, rows[:, 0] * root, np.abs(left - right) * 8], 1)
    inner = features @ head.inner[0].T + head.inner[1]
    network = _gelu(inner) @ head.outer[0][0] + head.outer[1][0]
    cosine = (left * right).sum(axis=1)
    score: Values = head.mix[0] * cosine + head.mix[1] * best + head.mix[2] + network
    return score.reshape(batch)


def _gelu(x: Values) -> Values:
    """Gaussian error linear unit, exact form: x times the normal distribution function."""
    error = np.vectorize(math.erf, otypes=[np.float32])
    result: Values = 0.5 * x * (1 + error(x / math.sqrt(2)))
    return result


def _ends(ids: Ids, limit: int) -> Ids:
    return ids if len(ids) <= limit else [*ids[: limit // 2], *ids[-(limit // 2) :]]


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Group rows of like length so that a batch has at most ``BATCH_TOKENS`` padded tokens."""
    batches: list[list[int]] = []
    longest = 0
    for row in length_order(list(lengths)):
        if not batches or (len(batches[-1]) + 1) * longest > BATCH_TOKENS:
            batches.append([])
            longest = lengths[row]
        batches[-1].append(row)
    return batches
