from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest

from hpcllm.errors import ModelError
from hpcllm.index.embedders import (
    Embedder,
    embed_query,
    load_embedder,
    question_file,
    question_vectors,
)
from hpcllm.index.embedders.base import length_order, normalise_rows
from hpcllm.index.embedders.hashing import HashEmbedder
from hpcllm.index.embedders.http import ATTEMPTS, BATCH_TEXTS, HttpEmbedder
from hpcllm.index.embedders.onnx import OnnxEmbedder
from hpcllm.models.adapters import merge_adapter
from tests.unit.index.tiny_encoder import (
    ALPHA,
    INPUTS,
    RANK,
    WORDS,
    adapter_arrays,
    encoder_bytes,
    stored_matrix,
    write_adapter,
    write_encoder,
)

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


def words_of(text: str) -> list[int]:
    return [WORDS.index(word) for word in text.split()]


def by_hand(text: str, matrix: np.ndarray) -> np.ndarray:
    """Mean of the rows of the embedding table, times the layer's matrix, at length 1."""
    table = np.random.default_rng(4).integers(-127, 128, (len(WORDS), INPUTS)) * 0.01
    vector = table[words_of(text)].mean(axis=0) @ matrix
    return vector / np.linalg.norm(vector)


class TestQuestionAdapter:
    """A tiny ONNX encoder, with and without an adapter merged into a second file."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        source = write_encoder(tmp_path / "tiny")
        adapter = write_adapter(tmp_path / "adapter")
        merge_adapter(source, adapter, source.with_name(question_file("q")), "int8")
        return source.parent

    def load(self, folder: Path, adapter: str = "q") -> OnnxEmbedder:
        embedder = load_embedder("tiny", models_dir=folder.parent, question_adapter=adapter)
        assert isinstance(embedder, OnnxEmbedder)
        return embedder

    def test_questions_are_read_with_the_adapter_and_passages_without(self, folder: Path) -> None:
        embedder = self.load(folder)
        values, scales = stored_matrix()
        a, b = (half.astype(np.float64) for half in adapter_arrays())
        base, text = values * scales, "the disk quota"
        np.testing.assert_allclose(embedder.embed([text])[0], by_hand(text, base), atol=1e-5)
        adapted = base + ALPHA / RANK * (b @ a).T
        ranking, plain = question_vectors(embedder, [text])
        np.testing.assert_allclose(plain[0], by_hand(text, base), atol=1e-5)
        np.testing.assert_allclose(ranking[0], by_hand(text, adapted), atol=0.02)
        assert ranking[0] @ plain[0] < 0.9

    def test_the_index_stays_valid(self, folder: Path) -> None:
        with_adapter, without = self.load(folder), self.load(folder, "")
        assert with_adapter.sha256 == without.sha256
        assert with_adapter.question_sha256 != without.question_sha256 == without.sha256
        assert (with_adapter.id, with_adapter.dimension) == (without.id, without.dimension)

    def test_without_an_adapter_questions_are_embedded_once(self, folder: Path) -> None:
        embedder = self.load(folder, "")
        ranking, plain = question_vectors(embedder, ["disk quota"])
        assert ranking is plain
        np.testing.assert_array_equal(embedder.embed_questions(["disk quota"]), plain)

    def test_a_missing_file_falls_back_with_one_line(
        self, folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        embedder = self.load(folder, "other")
        assert embedder.question_adapter == ""
        assert len(caplog.messages) == 1
        assert "question adapter other is not in use" in caplog.text
        assert "model.other.onnx does not exist" in caplog.text
        assert "hpcllm models pull tiny" in caplog.text

    def test_a_damaged_file_is_named(self, folder: Path) -> None:
        (folder / question_file("q")).write_bytes(b"not this")
        with pytest.raises(ModelError, match=r"model\.q\.onnx is damaged .*models pull tiny"):
            self.load(folder)

    def test_a_file_of_another_model_is_refused(self, folder: Path) -> None:
        (folder / question_file("q")).write_bytes(encoder_bytes(outputs=3))
        with pytest.raises(ModelError, match=r"model\.q\.onnx has inputs .* expected .* as in the"):
            self.load(folder)

    def test_embedders_without_adapters_read_questions_as_passages(self) -> None:
        ranking, plain = question_vectors(HashEmbedder(), ["disk quota"])
        assert ranking is plain
        np.testing.assert_array_equal(plain, HashEmbedder().embed(["disk quota"]))


def test_rows_of_zeros_stay_zero() -> None:
    rows = normalise_rows(np.array([[3, 4], [0, 0]], dtype=np.float32))
    assert rows.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0]]


def test_the_longest_comes_first() -> None:
    assert length_order([2, 9, 5]) == [1, 2, 0]
