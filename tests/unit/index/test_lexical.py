from __future__ import annotations

import math
from pathlib import Path

import pytest

from hpcllm.errors import StoreError
from hpcllm.index.lexical import LexicalIndex, write_lexical

DOCUMENTS = [["gpu", "job", "job"], ["cpu", "job"], ["disk"]]


@pytest.fixture
def index(tmp_path: Path) -> LexicalIndex:
    write_lexical(tmp_path / "lexical", DOCUMENTS)
    return LexicalIndex(tmp_path / "lexical", count=3)


def bm25(frequency: int, length: int, documents: int) -> float:
    """Lucene's BM25 for one token, k1 = 1.2, b = 0.75, mean length 2, three documents."""
    idf = math.log(1 + (3 - documents + 0.5) / (documents + 0.5))
    return idf * frequency / (frequency + 1.2 * (1 - 0.75 + 0.75 * length / 2))


def test_scores_are_bm25(index: LexicalIndex) -> None:
    assert index.scores(["job"]).tolist() == pytest.approx([bm25(2, 3, 2), bm25(1, 2, 2), 0])
    both = index.scores(["job", "gpu"])
    assert both.tolist() == pytest.approx([bm25(2, 3, 2) + bm25(1, 3, 1), bm25(1, 2, 2), 0])


def test_a_repeated_word_of_a_question_counts_once(index: LexicalIndex) -> None:
    assert index.scores(["job", "job"]).tolist() == index.scores(["job"]).tolist()


def test_unknown_words_and_no_words_find_nothing(index: LexicalIndex) -> None:
    assert index.scores(["tape"]).tolist() == [0, 0, 0]
    assert index.scores([]).tolist() == [0, 0, 0]


def test_chunks_without_any_word_can_be_written(tmp_path: Path) -> None:
    write_lexical(tmp_path / "lexical", [[], []])
    assert LexicalIndex(tmp_path / "lexical", count=2).scores(["x"]).tolist() == [0, 0]


def test_no_file_is_a_pickle(tmp_path: Path, index: LexicalIndex) -> None:
    suffixes = {path.suffix for path in (tmp_path / "lexical").iterdir()}
    assert suffixes == {".npy", ".json"}
    assert not (tmp_path / "lexical" / "corpus.jsonl").exists()


def test_another_count_than_expected_is_refused(tmp_path: Path, index: LexicalIndex) -> None:
    with pytest.raises(StoreError, match="holds 3 chunks, expected 4"):
        LexicalIndex(tmp_path / "lexical", count=4)


@pytest.mark.parametrize("number", range(5))
def test_a_damaged_or_missing_file_is_reported(
    tmp_path: Path, index: LexicalIndex, number: int
) -> None:
    victims = sorted((tmp_path / "lexical").iterdir())
    assert len(victims) == 5
    victims[number].write_bytes(b"{")
    with pytest.raises(StoreError, match=r"lexical is damaged .*hpcllm ingest --rebuild"):
        LexicalIndex(tmp_path / "lexical", count=3)
    victims[number].unlink()
    with pytest.raises(StoreError, match="damaged"):
        LexicalIndex(tmp_path / "lexical", count=3)
