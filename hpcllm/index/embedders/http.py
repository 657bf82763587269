"""Embeddings from an OpenAI-compatible endpoint (``POST {base_url}/embeddings``).

Role: lets a site use a larger model that its own server runs. Vectors are normalised here, since
servers differ in whether they do it.
"""

from __future__ import annotations

import hashlib
import random
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcllm.errors import ModelError
from hpcllm.index.embedders.base import normalise_rows
from hpcllm.index.embedders.hashing import WORD

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx

    from hpcllm.index.embedders.base import Progress, Vectors

BATCH_TEXTS = 32
"""Texts of one request."""

ATTEMPTS = 4
"""Tries of a request before giving up, where trying again can help."""

RETRY_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
"""Answers after which trying again can help."""

PIECES_PER_WORD = 1.4
"""Word pieces of an English word, on average; stands in for the model's own tokenizer."""


class HttpEmbedder:
    """Vectors from a server.

    Args:
        model: name of the model at the server.
        base_url: address that ends in the API's version, such as ``http://localhost:8000/v1``.
        api_key: sent as a bearer token; never logged.
        timeout_s: longest wait for one request.
        transport: replaces the network in tests.

    Attributes:
        id: ``http:MODEL``; the address is left out, so that a server may move.
        sha256: hash of the model's name, since its weights are not at hand.

    Raises:
        ModelError: the server cannot be reached or does not embed (asked once at construction,
            for the dimension).
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        api_key: str | None = None,
        timeout_s: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        import httpx

        self.id = f"http:{model}"
        self.sha256 = hashlib.sha256(f"http:{model}".encode()).hexdigest()
        self._model = model
        self._url = f"{base_url.rstrip('/')}/embeddings"
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = httpx.Client(headers=headers, timeout=timeout_s, transport=transport)
        self._sleep = threading.Event().wait if transport is None else lambda _: False
        self.dimension = len(self._request(["dimension"])[0])

    def embed(self, texts: Sequence[str], *, progress: Progress | None = None) -> Vectors:
        """Return ``(len(texts), dimension)`` float32 unit rows, in the order given.

        Raises:
            ModelError: the server failed, refused, or gave vectors of another length.
        """
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), BATCH_TEXTS):
            batch = list(texts[start : start + BATCH_TEXTS])
            vectors[start : start + len(batch)] = self._checked(self._request(batch))
            if progress:
                progress(len(batch))
        return normalise_rows(vectors)

    def count_tokens(self, text: str) -> int:
        """Return an estimate from the number of words and marks; the server is not asked."""
        return round(len(WORD.findall(text)) * PIECES_PER_WORD)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _checked(self, rows: list[list[float]]) -> Vectors:
        wrong = next((len(row) for row in rows if len(row) != self.dimension), None)
        if wrong is not None:
            raise ModelError(
                f"{self._url} gave a vector of length {wrong} after one of {self.dimension}; "
                "expected one model behind the address: check the server's model name"
            )
        return np.asarray(rows, dtype=np.float32)

    def _request(self, texts: list[str]) -> list[list[float]]:
        payload = {"model": self._model, "input": texts, "encoding_format": "float"}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return _vectors_of(self._post(payload), len(texts))
            except _Transient as exc:
                if attempt == ATTEMPTS:
                    raise ModelError(
                        f"{self._url} failed {ATTEMPTS} times, last with: {exc}. "
                        "Check that the embedding server runs and is reachable"
                    ) from exc
                self._sleep(exc.retry_after_s or random.uniform(0.5, 1.0) * 2 ** (attempt - 1))
        raise AssertionError("unreachable")

    def _post(self, payload: dict[str, Any]) -> Any:
        import httpx

        try:
            response = self._client.post(self._url, json=payload)
        except httpx.HTTPError as exc:
            raise _Transient(f"{type(exc).__name__}: {exc}") from exc
        if response.status_code in RETRY_STATUSES:
            raise _Transient(f"status {response.status_code}", _retry_after_s(response))
        if response.status_code != 200:
            raise ModelError(
                f"{self._url} answered {response.status_code} for model {self._model!r}: "
                f"{response.text[:200]!r}; expected 200. Check the model's name, the address and "
                "HPCLLM_API_KEY"
            )
        try:
            return response.json()
        except ValueError as exc:
            raise ModelError(
                f"{self._url} did not answer with JSON but {response.text[:80]!r}; expected an "
                "OpenAI-compatible server: does the address end in /v1?"
            ) from exc


class _Transient(Exception):
    """A failure after which another try can succeed."""

    def __init__(self, message: str, retry_after_s: float = 0.0) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


def _retry_after_s(response: httpx.Response) -> float:
    value = response.headers.get("retry-after", "")
    return min(float(value), 60.0) if value.isdecimal() else 0.0


def _vectors_of(answer: Any, expected: int) -> list[list[float]]:
    try:
        items = sorted(answer["data"], key=lambda item: int(item["index"]))
        rows = [[float(value) for value in item["embedding"]] for item in items]
    except (KeyError, TypeError, ValueError) as exc:
        raise ModelError(
            f"the embedding server's answer lacks data[].embedding ({exc!r}); expected the "
            "OpenAI form: check that the address is an embeddings endpoint"
        ) from exc
    if len(rows) != expected:
        raise ModelError(
            f"the embedding server gave {len(rows)} vectors for {expected} texts; expected one "
            "each: check the server's log"
        )
    return rows
