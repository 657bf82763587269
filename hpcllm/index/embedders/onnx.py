"""Sentence embeddings with onnxruntime and tokenizers; no torch.

Role: the default embedder (all-MiniLM-L6-v2). Works with any BERT-like encoder whose first output
is the last hidden state ``(batch, tokens, dimension)`` and whose sentence vector is the mean over
tokens.

How the time is spent on a processor: one session whose operators run on one thread each, and as
many Python threads as asked for that feed it (onnxruntime releases the interpreter lock). This
beats threads inside an operator, which wait for one another at every layer of a small model.
Batches hold few tokens: on a processor a batch gains nothing once the matrices fill the vector
units, and padding and memory grow with it.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcllm.errors import ModelError
from hpcllm.index.embedders.base import length_order, normalise_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from hpcllm.index.embedders.base import Progress, Vectors

WINDOW_TOKENS = 256
"""Tokens that the model was trained to read, special ones included; the rest of a text is cut."""

BATCH_TOKENS = 256
"""Padded tokens of a batch. Higher means fewer calls, more padding and more memory."""

TOKENIZE_AT_ONCE = 2048
"""Texts tokenized and sorted together, so that memory does not grow with the corpus."""


class OnnxEmbedder:
    """Mean-pooled, normalised sentence vectors of an ONNX encoder.

    Thread-safe: any number of threads may call :meth:`embed` at once.

    Args:
        model_path: the encoder, with inputs ``input_ids``, ``attention_mask`` and perhaps
            ``token_type_ids``.
        tokenizer_path: its ``tokenizer.json``. Padding and truncation set in that file are
            overridden: published files cut at 128 tokens, the model reads 256.
        threads: batches embedded at the same time; 0 takes 1.
        id: name recorded in manifests.
        question_path: the same encoder with an adapter merged in, for :meth:`embed_questions`.
        question_adapter: name of that adapter.

    Attributes:
        id: as given.
        dimension: length of a vector.
        question_adapter: as given; empty where questions are read as passages.

    Raises:
        ModelError: a file is missing or damaged, or the model is of another kind.
    """

    def __init__(
        self,
        model_path: Path,
        tokenizer_path: Path,
        *,
        threads: int = 1,
        id: str = "all-minilm-l6-v2",
        question_path: Path | None = None,
        question_adapter: str = "",
    ) -> None:
        self.id = id
        self._model_path = model_path
        self._threads = max(1, threads)
        self._tokenizer = open_tokenizer(tokenizer_path, id)
        self._counter = open_tokenizer(tokenizer_path, id)
        self._counter.no_truncation()
        self._session = open_session(model_path, id)
        self._inputs = frozenset(item.name for item in self._session.get_inputs())
        self.dimension = _dimension(self._session, model_path)
        self.question_adapter = question_adapter if question_path else ""
        self._question_path = question_path
        self._question_session = self._session
        if question_path:
            self._question_session = open_session(question_path, id)
            _check_alike(self._session, self._question_session, question_path, id)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the model file, computed when first asked for."""
        with self._model_path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @cached_property
    def question_sha256(self) -> str:
        """SHA-256 of the model file that reads questions, computed when first asked for."""
        with (self._question_path or self._model_path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def embed(self, texts: Sequence[str], *, progress: Progress | None = None) -> Vectors:
        """Return ``(len(texts), dimension)`` float32 unit rows, in the order given.

        Raises:
            ModelError: the engine failed, most often for lack of memory.
        """
        return self._embed(self._session, texts, progress)

    def embed_questions(self, texts: Sequence[str]) -> Vectors:
        """Return vectors to rank passages by: as :meth:`embed`, read with the question adapter.

        Their cosines to passages are on another scale than those of :meth:`embed`.

        Raises:
            ModelError: the engine failed, most often for lack of memory.
        """
        return self._embed(self._question_session, texts, None)

    def _embed(self, session: Any, texts: Sequence[str], progress: Progress | None) -> Vectors:
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        batches = (
            batch
            for part in _parts(len(texts))
            for batch in self._batches(texts[part], offset=part.start)
        )
        embed_batch = partial(self._embed_batch, session)
        workers = min(self._threads, len(texts))
        if workers <= 1:  # a single question must not pay for a pool
            self._fill(vectors, map(embed_batch, batches), progress)
        else:
            with ThreadPoolExecutor(workers, thread_name_prefix="embed") as pool:
                results = _bounded_map(pool, embed_batch, batches, workers)
                self._fill(vectors, results, progress)
        return vectors

    def count_tokens(self, text: str) -> int:
        """Return the length of ``text`` in word pieces, not cut, without special tokens."""
        return len(self._counter.encode(text, add_special_tokens=False).ids)

    def _batches(self, texts: Sequence[str], offset: int = 0) -> Iterator[Batch]:
        encodings = self._tokenizer.encode_batch(list(texts))
        lengths = [len(encoding.ids) for encoding in encodings]
        rows: list[int] = []
        for row in length_order(lengths):
            if rows and (len(rows) + 1) * lengths[rows[0]] > BATCH_TOKENS:
                yield Batch([offset + r for r in rows], [encodings[r].ids for r in rows])
                rows = []
            rows.append(row)
        if rows:
            yield Batch([offset + r for r in rows], [encodings[r].ids for r in rows])

    def _embed_batch(self, session: Any, batch: Batch) -> tuple[list[int], Vectors]:
        feed = {"input_ids": batch.ids, "attention_mask": batch.mask}
        if "token_type_ids" in self._inputs:
            feed["token_type_ids"] = np.zeros_like(batch.ids)
        try:
            hidden = session.run(None, feed)[0]  # (batch, tokens, dimension)
        except Exception as exc:  # onnxruntime's own classes have no common root but this
            raise ModelError(
                f"{self._model_path} failed on {len(batch.rows)} text(s) of "
                f"{batch.ids.shape[1]} tokens: {exc}. Free some memory or use fewer threads"
            ) from exc
        weights = batch.mask[:, :, None].astype(np.float32)
        summed = (hidden * weights).sum(axis=1)
        return batch.rows, normalise_rows(summed / weights.sum(axis=1))

    @staticmethod
    def _fill(
        vectors: Vectors,
        results: Iterable[tuple[list[int], Vectors]],
        progress: Progress | None,
    ) -> None:
        for rows, values in results:
            vectors[rows] = values
            if progress:
                progress(len(rows))


class Batch:
    """Token ids of some texts, padded to the longest.

    Attributes:
        rows: positions of the texts in the call.
        ids: ``(batch, tokens)`` int64, 0 where padded.
        mask: ``(batch, tokens)`` int64, 1 where a token stands.
    """

    __slots__ = ("ids", "mask", "rows")

    def __init__(self, rows: list[int], token_ids: list[list[int]]) -> None:
        self.rows = rows
        width = max(map(len, token_ids))
        self.ids: NDArray[np.int64] = np.zeros((len(rows), width), dtype=np.int64)
        self.mask: NDArray[np.int64] = np.zeros((len(rows), width), dtype=np.int64)
        for row, ids in enumerate(token_ids):
            self.ids[row, : len(ids)] = ids
            self.mask[row, : len(ids)] = 1


def _bounded_map(
    pool: ThreadPoolExecutor,
    function: Callable[[Batch], tuple[list[int], Vectors]],
    batches: Iterator[Batch],
    workers: int,
) -> Iterator[tuple[list[int], Vectors]]:
    """Map in order with a few batches waiting, where ``pool.map`` would take in all of them."""
    waiting = deque(pool.submit(function, batch) for batch in islice(batches, workers * 4))
    while waiting:
        result = waiting.popleft().result()
        waiting.extend(pool.submit(function, batch) for batch in islice(batches, 1))
        yield result


def _parts(count: int) -> Iterator[slice]:
    for start in range(0, count, TOKENIZE_AT_ONCE):
        yield slice(start, min(start + TOKENIZE_AT_ONCE, count))


def open_tokenizer(path: Path, model_id: str) -> Any:
    """Return a ``tokenizers.Tokenizer`` without padding that cuts at the window.

    Raises:
        ModelError: the file is missing or damaged.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as exc:  # tokenizers raises plain Exception
        raise ModelError(_damaged(path, model_id, exc)) from exc
    tokenizer.no_padding()
    tokenizer.enable_truncation(WINDOW_TOKENS)
    return tokenizer


def _import_onnxruntime() -> Any:
    """Import onnxruntime with its telemetry off: nothing may leave the host.

    Its Linux wheels look up a vendor's host and keep a database of events under ``~/.cache``
    unless this variable is set before the import (seen with 1.32).
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    return onnxruntime


def open_session(path: Path, model_id: str) -> Any:
    """Return an onnxruntime session whose operators run on one thread each.

    Raises:
        ModelError: the file is missing or damaged.
    """
    onnxruntime = _import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as exc:  # onnxruntime's own classes have no common root but this
        raise ModelError(_damaged(path, model_id, exc)) from exc


def _damaged(path: Path, model_id: str, error: Exception) -> str:
    reason = str(error).split("\n", 1)[0]
    what = "is damaged or not a model" if path.is_file() else "does not exist"
    return f"{path} {what} ({reason}); fetch it anew with: hpcllm models pull {model_id}"


def _check_alike(base: Any, question: Any, path: Path, model_id: str) -> None:
    """Refuse a second model whose inputs or output differ from the first's."""
    wanted, given = (
        (sorted(item.name for item in s.get_inputs()), s.get_outputs()[0].shape[-1])
        for s in (base, question)
    )
    if wanted != given:
        raise ModelError(
            f"{path} has inputs and dimension {given}, expected {wanted} as in the base; make it "
            f"anew with: hpcllm models pull {model_id}"
        )


def _dimension(session: Any, path: Path) -> int:
    shape = session.get_outputs()[0].shape
    if len(shape) != 3 or not isinstance(shape[2], int):
        raise ModelError(
            f"{path} gives an output of shape {shape}; expected token vectors "
            "(batch, tokens, dimension): choose an encoder exported without pooling"
        )
    return shape[2]
