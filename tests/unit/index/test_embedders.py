from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest

from hpcllm.errors import ModelError
from hpcllm.index.embedders import Embedder, embed_query, load_embedder
from hpcllm.index.embedders.base import length_order, normalise_rows
from hpcllm.index.embedders.hashing import HashEmbedder
from hpcllm.index.embedders.http import ATTEMPTS, BATCH_TEXTS, HttpEmbedder

TEXTS = ["Submit a job with sbatch.", "", "Ünïcode \x00 and 漢字", "word " * 900, "Submit a job"]

Handler = Callable[[httpx.Request], httpx.Response]


def lengths(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0, 0.0] for text in texts]


def answer(request: httpx.Request) -> httpx.Response:
    texts = json.loads(request.content)["input"]
    rows = [{"index": i, "embedding": row} for i, row in enumerate(lengths(texts))]
    return httpx.Response(200, json={"data": rows[::-1]})


def over_http(handler: Handler = answer, **options: str) -> HttpEmbedder:
    return HttpEmbedder("m", "http://server/v1/", transport=httpx.MockTransport(handler), **options)


class Contract:
    """What holds for every embedder."""

    @pytest.fixture
    def embedder(self) -> Embedder:
        raise NotImplementedError

    def test_it_is_an_embedder(self, embedder: Embedder) -> None:
        assert isinstance(embedder, Embedder)
        assert len(embedder.sha256) == 64

    def test_rows_are_unit_vectors_in_the_order_given(self, embedder: Embedder) -> None:
        vectors = embedder.embed(TEXTS)
        assert vectors.shape == (len(TEXTS), embedder.dimension)
        assert vectors.dtype == np.float32
        norms = np.linalg.norm(vectors, axis=1)
        assert np.all(np.isclose(norms, 1, atol=1e-5) | (norms == 0))
        for text, vector in zip(TEXTS, vectors, strict=True):
            assert np.allclose(embed_query(embedder, text), vector, atol=1e-5)

    def test_nothing_gives_nothing(self, embedder: Embedder) -> None:
        assert embedder.embed([]).shape == (0, embedder.dimension)

    def test_progress_adds_up(self, embedder: Embedder) -> None:
        counts: list[int] = []
        embedder.embed(["a text"] * 150, progress=counts.append)
        assert sum(counts) == 150
        assert len(counts) > 1

    def test_longer_texts_have_more_tokens(self, embedder: Embedder) -> None:
        assert embedder.count_tokens("") == 0
        assert embedder.count_tokens("word " * 900) >= 900


class TestHashEmbedder(Contract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return HashEmbedder()

    def test_shared_words_make_texts_close(self, embedder: Embedder) -> None:
        job, jobs, other = embedder.embed(["submit a job", "submit the job", "disk quota"])
        assert job @ jobs == pytest.approx(2 / 3, abs=1e-5)
        assert abs(job @ other) < 0.5

    def test_the_dimension_is_part_of_its_identity(self) -> None:
        assert HashEmbedder(64).id != HashEmbedder().id
        assert HashEmbedder(64).sha256 != HashEmbedder().sha256


class TestHttpEmbedder(Contract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return over_http()

    def test_texts_are_sent_in_batches_with_the_key(self) -> None:
        seen: list[httpx.Request] = []

        def handler(request: httpx.Request) -> httpx.Response:
            seen.append(request)
            return answer(request)

        over_http(handler, api_key="secret").embed(["a"] * (BATCH_TEXTS + 1))
        sizes = [len(json.loads(request.content)["input"]) for request in seen]
        assert sizes == [1, BATCH_TEXTS, 1]
        assert str(seen[0].url) == "http://server/v1/embeddings"
        assert seen[0].headers["authorization"] == "Bearer secret"

    def test_a_passing_failure_is_tried_again(self) -> None:
        failures = [httpx.Response(503), httpx.Response(429, headers={"retry-after": "1"})]
        embedder = over_http(lambda request: failures.pop() if failures else answer(request))
        assert embedder.dimension == 3

    def test_a_lasting_failure_names_the_address_and_the_remedy(self) -> None:
        def handler(request: httpx.Request) -> httpx.Response:
            raise httpx.ConnectError("refused", request=request)

        with pytest.raises(ModelError, match="http://server/v1/embeddings failed") as caught:
            over_http(handler)
        assert f"{ATTEMPTS} times" in str(caught.value)
        assert "Check that the embedding server runs" in str(caught.value)

    @pytest.mark.parametrize(
        ("response", "message"),
        [
            (httpx.Response(401, text="no"), "answered 401 .* HPCLLM_API_KEY"),
            (httpx.Response(200, text="<html>"), "did not answer with JSON .* end in /v1"),
            (httpx.Response(200, json={"error": 1}), "lacks data.*embeddings endpoint"),
            (httpx.Response(200, json={"data": []}), "0 vectors for 1 texts"),
        ],
    )
    def test_a_refusal_says_what_to_check(self, response: httpx.Response, message: str) -> None:
        with pytest.raises(ModelError, match=message):
            over_http(lambda _: response)

    def test_vectors_of_another_length_are_refused(self) -> None:
        sizes = iter([3, 4])

        def handler(_: httpx.Request) -> httpx.Response:
            row = [0.0] * next(sizes)
            return httpx.Response(200, json={"data": [{"index": 0, "embedding": row}]})

        embedder = over_http(handler)
        with pytest.raises(ModelError, match="length 4 after one of 3"):
            embedder.embed(["x"])


@pytest.fixture(scope="module")
def minilm(real_home: Path) -> Embedder:
    return load_embedder("all-minilm-l6-v2", models_dir=real_home / "models", threads=2)


@pytest.mark.models
class TestOnnxEmbedder(Contract):
    @pytest.fixture
    def embedder(self, minilm: Embedder) -> Embedder:
        return minilm

    def test_meaning_counts_more_than_words(self, embedder: Embedder) -> None:
        vectors = embedder.embed(
            ["How much disk space do I have?", "storage quota", "a disk jockey in space"]
        )
        assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]

    def test_more_than_128_tokens_are_read(self, embedder: Embedder) -> None:
        start = "hello " * 150
        vectors = embedder.embed([start, start + "quota " * 50])
        assert vectors[0] @ vectors[1] < 0.999

    def test_tokens_are_counted_past_the_window(self, embedder: Embedder) -> None:
        assert embedder.count_tokens("hello " * 700) == 700


def test_the_name_hashing_needs_no_files(tmp_path: Path) -> None:
    assert load_embedder("hashing", models_dir=tmp_path / "none").id == "hashing"


def test_a_missing_model_is_named_with_the_command_that_fetches_it(tmp_path: Path) -> None:
    (tmp_path / "all-minilm-l6-v2").mkdir()
    with pytest.raises(ModelError) as caught:
        load_embedder("all-minilm-l6-v3", models_dir=tmp_path)
    assert "lacks model.onnx and tokenizer.json" in str(caught.value)
    assert "did you mean 'all-minilm-l6-v2'?" in str(caught.value)
    assert "hpcllm models pull all-minilm-l6-v3" in str(caught.value)


def test_an_incomplete_http_name_shows_the_form_expected(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="expected http:MODEL@BASE_URL"):
        load_embedder("http:bge-m3", models_dir=tmp_path)


def test_damaged_model_files_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    for name in ("model.onnx", "tokenizer.json"):
        (folder / name).write_bytes(b"not this")
    with pytest.raises(ModelError, match=r"tokenizer.json is damaged .*hpcllm models pull m"):
        load_embedder("m", models_dir=tmp_path)


def test_rows_of_zeros_stay_zero() -> None:
    rows = normalise_rows(np.array([[3, 4], [0, 0]], dtype=np.float32))
    assert rows.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0]]


def test_the_longest_comes_first() -> None:
    assert length_order([2, 9, 5]) == [1, 2, 0]
