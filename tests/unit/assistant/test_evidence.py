from __future__ import annotations

import math

import pytest

from hpcllm.assistant.evidence import Weights, assess, features, names_in

from .helpers import GPU_TEXT, passage, passages


def test_nothing_found_is_never_enough() -> None:
    found = assess("anything", [], minimum=0.0)
    assert (found.score, found.enough, found.why) == (0.0, False, "nothing was found")


def test_the_score_is_the_logistic_of_the_weighted_features() -> None:
    weights = Weights(intercept=-1.0, similarity=2.0, coverage=1.0, strangers=-0.5)
    found = assess("a100 CHARMM", [passage(GPU_TEXT, similarity=0.5)], weights=weights)
    # Two words count as eight: -1 + ln 8 * (2 * 0.5 + 1 * 0.5) - 0.5 * 1 = 1.619
    assert found.score == pytest.approx(1 / (1 + math.exp(-(1.5 * math.log(8) - 1.5))))
    assert "CHARMM" in found.why


def test_the_same_match_of_a_longer_question_is_stronger_evidence() -> None:
    words = [f"word{i}x" for i in range(40)]
    text = passage(" ".join(words), similarity=0.4)
    scores = [assess(" ".join(words[:n]), [text]).score for n in (2, 4, 12, 40)]
    assert scores == sorted(scores) and scores[-1] > scores[0]


def test_a_foreign_subject_has_less_evidence() -> None:
    near = [passage(GPU_TEXT, similarity=0.7)]
    far = [passage(GPU_TEXT, similarity=0.2)]
    known = assess("What is the time limit of the gpu partition?", near)
    foreign = assess("Which module has CHARMM with the DOMDEC kernel?", far)
    assert known.enough and not foreign.enough
    assert known.score > 0.7 > 0.2 > foreign.score


def test_the_minimum_decides() -> None:
    question = "What is the time limit of the gpu partition?"
    score = assess(question, passages()).score
    assert assess(question, passages(), minimum=score - 0.01).enough
    assert not assess(question, passages(), minimum=score + 0.01).enough


def test_a_passage_found_by_words_alone_has_no_similarity() -> None:
    assert features("gpu", [passage(GPU_TEXT, similarity=math.nan)]).similarity == 0.0


def test_coverage_is_the_best_single_passage() -> None:
    found = features("a100 gres", [passage("gres only"), passage("nothing", 2)])
    assert found.coverage == 0.5


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Is CHARMM installed?", ["CHARMM"]),
        ("Where do I find OneDrive. Thanks", ["OneDrive"]),
        ("can I use Ansys HFSS", ["Ansys", "HFSS"]),
        ("how do I run it", []),
    ],
)
def test_names_are_capitals_inside_or_after_a_word(question: str, expected: list[str]) -> None:
    assert names_in(question) == expected
