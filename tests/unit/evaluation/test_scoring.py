from __future__ import annotations

import pytest

from hpcllm.evaluation.answering import Output, RawAnswer
from hpcllm.evaluation.metrics.known import collect_known
from hpcllm.evaluation.runner import Outcome
from hpcllm.evaluation.scoring import METRICS, Scorer, judged, summarise
from hpcllm.index.embedders.hashing import HashEmbedder
from tests.unit.evaluation.helpers import answer, question, refusal, unanswerable


def test_a_right_answer_by_hand() -> None:
    (row,) = Scorer(known=collect_known([])).score_all([question()], [Outcome(answer())])
    assert row.status == "ok"
    expected = {
        "right": 1.0, "facts_all": 1.0, "facts_share": 1.0, "refused_wrong": 0.0, "words": 6.0,
        "citation_precision": 1.0, "citation_recall": 1.0, "hit_1": 1.0, "mrr": 1.0,
        "facts_first_1": 1.0, "facts_700": 1.0, "invented": 0.0, "has_invented": 0.0,
        "rouge_l": 1.0,
    }  # fmt: skip
    assert {name: row.scores[name] for name in expected} == expected
    for name in ("commands_share", "refused_right", "similarity"):
        assert row.scores[name] is None


def test_a_refusal_of_an_answerable_question_holds_nothing() -> None:
    (row,) = Scorer().score_all([question()], [Outcome(refusal())])
    assert row.scores["right"] == row.scores["facts_share"] == 0.0
    assert row.scores["refused_wrong"] == 1.0
    assert row.scores["words"] is None and row.scores["citation_precision"] is None


def test_a_refusal_of_an_unanswerable_question_is_right() -> None:
    rows = Scorer().score_all(
        [unanswerable(1), unanswerable(2)], [Outcome(refusal()), Outcome(answer())]
    )
    assert [row.scores["right"] for row in rows] == [1.0, 0.0]
    assert [row.scores["refused_right"] for row in rows] == [1.0, 0.0]
    assert rows[0].scores["facts_share"] is None


def test_a_failure_counts_as_wrong_and_is_no_refusal() -> None:
    rows = Scorer(embedder=HashEmbedder()).score_all(
        [question(1), unanswerable(2)], [Outcome(None, "down"), Outcome(None, "down")]
    )
    assert [row.status for row in rows] == ["failed", "failed"]
    assert [row.error for row in rows] == ["down", "down"]
    assert [row.scores["right"] for row in rows] == [0.0, 0.0]
    assert rows[0].scores["facts_share"] == 0.0 and rows[0].scores["similarity"] == 0.0
    assert rows[1].scores["refused_right"] == 0.0
    assert judged(rows[1]).right is False and judged(rows[1]).abstained is False


def test_the_draft_is_scored_where_it_is_asked_for() -> None:
    both = answer(
        final=Output("The quota is 50 GB [1].", False, ((1, 0),)),
        draft=Output("It is 70 GB.", False),
        fallback="the draft failed its check of numbers",
    )
    (checked,) = Scorer().score_all([question()], [Outcome(both)])
    (draft,) = Scorer().score_all([question()], [Outcome(both)], output="draft")
    assert (checked.scores["right"], draft.scores["right"]) == (1.0, 0.0)
    assert checked.fallback and not draft.fallback
    assert draft.text == "It is 70 GB."


def test_without_a_draft_the_final_answer_counts() -> None:
    (row,) = Scorer().score_all([question()], [Outcome(refusal())], output="draft")
    assert row.abstained


def test_commands_and_inventions() -> None:
    asked = question(gold_commands=("squeue --me", "scancel --me"))
    given = answer("Quota 50 GB: `squeue --me --mine` [1].")
    (row,) = Scorer(known=collect_known(["`squeue --me`"])).score_all([asked], [Outcome(given)])
    assert row.scores["commands_share"] == 0.5 and row.scores["commands_all"] == 0.0
    assert row.invented == ["option squeue --mine"]
    assert row.scores["has_invented"] == 1.0


def test_similarity_is_for_answerable_questions() -> None:
    rows = Scorer(embedder=HashEmbedder()).score_all(
        [unanswerable(1), question(2)], [Outcome(refusal()), Outcome(answer())]
    )
    assert rows[0].scores["similarity"] is None
    assert rows[1].scores["similarity"] == pytest.approx(1.0)


def test_summary_by_hand() -> None:
    rows = Scorer().score_all(
        [question(1), question(2), unanswerable(3)],
        [Outcome(answer()), Outcome(refusal()), Outcome(refusal())],
    )
    summary = summarise(rows)
    assert summary["right"] == {"mean": 0.666667, "standard_error": 0.333333, "n": 3}
    assert summary["facts_share"]["n"] == 2
    assert "commands_share" not in summary


def test_raw_answers_survive_storage() -> None:
    both = answer(draft=Output("x [2]", False, ((2, -1),)))
    assert RawAnswer.from_json(both.to_json()) == both


def test_every_metric_has_its_own_name_and_label() -> None:
    assert len({m.name for m in METRICS}) == len({m.label for m in METRICS}) == len(METRICS)
