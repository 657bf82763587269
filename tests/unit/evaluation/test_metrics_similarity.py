from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcllm.evaluation.metrics.similarity import (
    embedding_similarities,
    longest_common_subsequence,
    rouge_l,
    rouge_words,
)
from hpcllm.index.embedders.hashing import HashEmbedder

PAIRS = [
    ("the cat sat on the mat", "the cat on a mat"),
    ("Use sbatch --time=12:00:00 to ask for 12 hours.", "Ask for 12 hours with --time=12:00:00"),
    ("home has 50 GB", "scratch has 10 TB and home has 50 GB of space"),
    ("a b c", "x y z"),
    ("one", "one"),
    ("", "something"),
]


def test_lcs_by_hand() -> None:
    assert longest_common_subsequence("ABCBDAB", "BDCABA") == 4
    assert longest_common_subsequence([], ["a"]) == 0


def test_rouge_by_hand() -> None:
    # common: the cat on mat = 4; precision 4/5, recall 4/6
    assert rouge_l(*PAIRS[0]) == pytest.approx(2 * 0.8 * (2 / 3) / (0.8 + 2 / 3))


def test_accents_and_citation_marks() -> None:
    assert rouge_words("Alocação de NÓS, 4G") == ["alocação", "de", "nós", "4g"]
    assert rouge_words("nós") == rouge_words("nós")
    assert rouge_l("a cota é 50 GB", "a cota é 50 GB [1]") == 1.0
    assert rouge_l("não", "nao") == 0.0


def test_english_agrees_with_the_usual_implementation() -> None:
    code = (
        "import sys, json\nfrom rouge_score import rouge_scorer\n"
        "s = rouge_scorer.RougeScorer(['rougeL'], use_stemmer=False)\n"
        "print(json.dumps([s.score(a, b)['rougeL'].fmeasure for a, b in json.load(sys.stdin)]))"
    )
    import json

    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(PAIRS),
        capture_output=True,
        text=True,
        check=True,
    )
    assert [rouge_l(a, b) for a, b in PAIRS] == pytest.approx(json.loads(done.stdout))


@given(st.text(max_size=50), st.text(max_size=50))
def test_rouge_is_symmetric_and_within_its_bounds(one: str, other: str) -> None:
    assert 0 <= rouge_l(one, other) <= 1


def test_cosines_are_in_order_and_zero_for_an_empty_answer() -> None:
    values = embedding_similarities(
        ["home has 50 GB", "a b", "x"], ["home has 50 GB [1]", "c d e f", ""], HashEmbedder()
    )
    assert values[0] == pytest.approx(1.0)
    assert values[1] < 0.9
    assert values[2] == 0.0
