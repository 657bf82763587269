from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcllm.errors import StoreError
from hpcllm.index.dense import DenseIndex, write_vectors
from hpcllm.index.embedders.base import Vectors, normalise_rows

DIMENSION = 16


def random_rows(count: int, seed: int = 0) -> Vectors:
    random = np.random.default_rng(seed)
    return normalise_rows(random.standard_normal((count, DIMENSION)).astype(np.float32))


def written(path: Path, vectors: Vectors, **options: Any) -> DenseIndex:
    settings = write_vectors(path, vectors, **options)
    return DenseIndex(path, dimension=DIMENSION, count=len(vectors), settings=settings)


def test_exact_search_agrees_with_plain_arithmetic(tmp_path: Path) -> None:
    vectors, queries = random_rows(200), random_rows(3, seed=1)
    hits = written(tmp_path / "v", vectors).search(queries, 7)
    expected = np.argsort(-(queries @ vectors.T), axis=1)[:, :7]
    assert hits.rows.tolist() == expected.tolist()
    assert np.allclose(hits.similarities, np.take_along_axis(queries @ vectors.T, expected, 1))


@pytest.mark.parametrize("exact_limit", [1000, 10])
def test_a_mask_leaves_only_its_rows(tmp_path: Path, exact_limit: int) -> None:
    vectors = random_rows(500)
    index = written(tmp_path / "v", vectors, exact_limit=exact_limit)
    mask = np.zeros(500, dtype=bool)
    mask[[3, 77, 401]] = True
    found = index.search(vectors[77:78], 5, mask).rows[0]
    assert found[0] == 77
    assert set(found.tolist()) <= {3, 77, 401, -1}


def test_past_the_limit_lists_are_probed_until_recall_is_high(tmp_path: Path) -> None:
    vectors, queries = random_rows(2000), random_rows(50, seed=1)
    settings = write_vectors(tmp_path / "v", vectors, exact_limit=100)
    assert settings["kind"] == "ivf"
    assert settings["lists"] == round(4 * 2000**0.5)
    index = DenseIndex(tmp_path / "v", dimension=DIMENSION, count=2000, settings=settings)
    found = index.search(queries, 10).rows
    truth = np.argsort(-(queries @ vectors.T), axis=1)[:, :10]
    shared = sum(len(set(a) & set(b)) for a, b in zip(found.tolist(), truth.tolist(), strict=True))
    assert shared / truth.size > 0.9


@pytest.mark.parametrize("exact_limit", [1000, 10])
def test_stored_vectors_come_back_as_they_were(tmp_path: Path, exact_limit: int) -> None:
    vectors = random_rows(300)
    index = written(tmp_path / "v", vectors, exact_limit=exact_limit)
    rows = np.array([299, 0, 5], dtype=np.int64)
    assert np.array_equal(index.vectors(rows), vectors[rows])


def test_more_rows_than_there_are_give_all(tmp_path: Path) -> None:
    vectors = random_rows(4)
    assert sorted(written(tmp_path / "v", vectors).search(vectors[:1], 50).rows[0]) == [0, 1, 2, 3]


def test_a_question_of_another_dimension_is_refused(tmp_path: Path) -> None:
    index = written(tmp_path / "v", random_rows(4))
    with pytest.raises(StoreError, match=r"shape \(1, 3\).*16.*another embedder.*hpcllm ingest"):
        index.search(np.zeros((1, 3), dtype=np.float32), 1)


def test_another_count_than_expected_is_refused(tmp_path: Path) -> None:
    write_vectors(tmp_path / "v", random_rows(4))
    with pytest.raises(StoreError, match="holds 4 vectors of length 16, expected 5 of length 16"):
        DenseIndex(tmp_path / "v", dimension=16, count=5, settings={})


@pytest.mark.parametrize("content", [b"", b"not an index at all"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "v").write_bytes(content)
    with pytest.raises(StoreError, match=r"/v is damaged .*hpcllm ingest --rebuild"):
        DenseIndex(tmp_path / "v", dimension=16, count=5, settings={})
