from __future__ import annotations

import pytest

from hpcllm.evaluation.comparison import compare
from hpcllm.evaluation.discrimination import DISCRIMINATION, separations, verdict
from hpcllm.evaluation.report import html_report, markdown_report
from hpcllm.evaluation.results import Results
from hpcllm.evaluation.tables import discrimination, discrimination_pairs
from tests.unit.evaluation.helpers import results, row

N = 60


def made(name: str, facts: float, similarity: float, rouge: float, *, n: int = N) -> Results:
    """A system that has so many of ten facts right; its other scores vary around a mean."""
    rows = []
    for number in range(n):
        wave = 0.01 * (number % 3 - 1)
        right = number % 10 < facts * 10
        scores = {"similarity": similarity + wave, "rouge_l": rouge - wave}
        rows.append(row(number, right=right, scores=scores))
    return results(name, rows)


def noisy(name: str, mean: float, shift: int) -> Results:
    """A system whose similarity differs from question to question by far more than its mean."""
    rows = []
    for number in range(N):
        value = mean + (0.2 if (number + shift) % 2 else -0.2)
        rows.append(row(number, right=number % 2 == 0, scores={"similarity": value}))
    return results(name, rows)


def test_facts_tell_apart_what_similarity_does_not() -> None:
    comparison = compare([made("large", 0.9, 0.70, 0.4), made("small", 0.4, 0.70, 0.5)])
    found = comparison.separations
    assert {name: len(found[name].apart) for name in DISCRIMINATION} == {
        "right": 1, "facts_share": 1, "similarity": 0, "rouge_l": 1,
    }  # fmt: skip
    facts = found["facts_share"]
    assert facts.lowest == ("small", pytest.approx(0.4))
    assert facts.highest == ("large", pytest.approx(0.9))
    assert facts.spread == pytest.approx(0.5) and facts.n == N
    assert found["similarity"].spread == pytest.approx(0.0)
    assert verdict(found) == (
        "Facts present tells the pair apart. Embedding similarity: 0 of 1; it misses 1 of those "
        "and adds 0. ROUGE-L: 1 of 1; it misses 0 of those and adds 0, and puts 1 in the reverse "
        "order."
    )


def test_a_small_difference_within_the_noise_is_not_told_apart() -> None:
    comparison = compare([noisy("a", 0.70, 0), noisy("b", 0.69, 1)])
    similarity = comparison.separations["similarity"]
    assert similarity.apart == ()
    # every difference is 0.41 or -0.39: the interval of the mean of 60 is 0.01 ± 1.96 * 0.4 / √60
    assert similarity.half_width == pytest.approx(0.101, abs=0.01)
    assert similarity.resolution == pytest.approx(0.1, abs=0.02)


def test_spread_is_taken_over_the_questions_of_all() -> None:
    long, short = made("long", 0.9, 0.7, 0.4), made("short", 0.4, 0.7, 0.4, n=10)
    found = compare([long, short]).separations["facts_share"]
    assert found.n == 10 and found.spread == pytest.approx(0.5)


def test_a_metric_without_values_is_left_out_and_one_system_has_no_table() -> None:
    bare = [results("a", [row(1, True)]), results("b", [row(1, False)])]
    assert list(compare(bare).separations) == ["right", "facts_share"]
    assert separations(bare[:1], []) == {} and verdict({}) == ""


def test_the_tables_say_it_for_every_pair() -> None:
    systems = [made("a", 0.9, 0.7, 0.4), made("b", 0.4, 0.7, 0.4), made("c", 0.4, 0.7, 0.41)]
    comparison = compare(systems)
    table = discrimination(comparison)
    assert [cells[:2] for cells in table.rows] == [
        ("right", "2 of 3"), ("facts", "2 of 3"), ("similarity", "0 of 3"), ("ROUGE-L", "2 of 3"),
    ]  # fmt: skip
    assert table.rows[1][2:6] == ("60", "40.0 (b)", "90.0 (a)", "50.0")
    assert "Facts present tells 2 of 3 pairs apart." in table.note
    pairs = {cells[0]: cells[1:] for cells in discrimination_pairs(comparison).rows}
    assert list(pairs) == ["a − b", "a − c", "b − c"]
    assert pairs["a − b"][1].startswith("yes, +50.0 [")
    assert pairs["b − c"][1] == "no, +0.0 [+0.0, +0.0]"
    assert pairs["b − c"][3].startswith("yes, -1.0 [")


def test_both_reports_hold_the_tables() -> None:
    systems = [made("a", 0.9, 0.7, 0.4), made("b", 0.4, 0.7, 0.4)]
    text, page = markdown_report(systems), html_report(systems)
    for title in ("What each metric can tell apart", "Which pairs each metric tells apart"):
        assert f"### {title}" in text and f"<h2>{title}</h2>" in page
    assert "| facts | 1 of 1 | 60 | 40.0 (b) | 90.0 (a) | 50.0 |" in text


def test_machines_get_the_same() -> None:
    data = compare([made("a", 0.9, 0.7, 0.4), made("b", 0.4, 0.7, 0.4)]).to_json()
    facts = data["discrimination"]["facts_share"]
    assert facts["lowest"] == ["b", pytest.approx(0.4)] and facts["spread"] == 0.5
    assert (facts["pairs"], facts["apart"], facts["n"]) == (1, 1, N)
    assert data["discrimination"]["similarity"]["resolution"] is None
