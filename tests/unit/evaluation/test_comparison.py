from __future__ import annotations

import pytest

from hpcllm.errors import EvaluationError
from hpcllm.evaluation.comparison import compare, compare_pair, summarise_system
from hpcllm.evaluation.tables import (
    abstention,
    all_metrics,
    discrimination,
    groups,
    overview,
    pairs,
    tables,
    to_markdown,
)
from tests.unit.evaluation.helpers import results, row

N = 40
GOOD = results("good", [row(n, right=n % 10 != 0) for n in range(N)])
POOR = results("poor", [row(n, right=n % 2 == 0) for n in range(N)])
SAME = results("same", [row(n, right=n % 10 != 1) for n in range(N)])


def test_wins_losses_and_ties_by_hand() -> None:
    pair = compare_pair(GOOD, POOR)
    # good alone is right for all odd n (20); poor alone for n = 0, 10, 20, 30
    assert (len(pair.wins), len(pair.losses), pair.ties, pair.n) == (20, 4, 16, 40)
    assert pair.losses == ("q-000", "q-010", "q-020", "q-030")
    assert pair.differences["right"].estimate == pytest.approx(0.4)
    assert pair.differences["right"].excludes_zero


def test_equal_systems_are_not_told_apart() -> None:
    pair = compare_pair(GOOD, SAME)
    assert pair.differences["right"].estimate == pytest.approx(0.0)
    assert not pair.differences["right"].excludes_zero
    assert compare([GOOD, POOR, SAME]).separated("right") == [("good", "poor"), ("poor", "same")]


def test_only_common_questions_count() -> None:
    some = results("some", [row(n, right=True) for n in range(5)] + [row(99, right=False)])
    pair = compare_pair(GOOD, some)
    assert pair.n == 5
    assert pair.losses == ("q-000",)


def test_metrics_are_paired_where_both_apply() -> None:
    one = results("one", [row(n, True, scores={"citation_precision": 1.0}) for n in range(4)])
    other = results(
        "other", [row(n, True, scores={"citation_precision": None if n else 0.5}) for n in range(4)]
    )
    difference = compare_pair(one, other).differences["citation_precision"]
    assert (difference.n, difference.estimate) == (1, 0.5)


def test_other_questions_under_the_same_ids_are_refused() -> None:
    other = results("other", [row(1, True, question="Something else?")])
    with pytest.raises(EvaluationError, match=r"different questions under the same ids \(q-001\)"):
        compare_pair(GOOD, other)


def test_systems_without_common_questions_are_refused() -> None:
    with pytest.raises(EvaluationError, match="share no question: run both"):
        compare_pair(GOOD, results("far", [row(500, True)]))


def test_a_system_in_numbers() -> None:
    rows = [
        row(1, True, confidence=0.9),
        row(2, False, confidence=0.5, category="gpus"),
        row(3, False, status="failed", measured={"peak_memory_mib": 300.0}, confidence=0.0),
    ]
    summary = summarise_system(results("s", rows))
    assert (summary.n, summary.failed) == (3, 1)
    assert summary.latency_ms == {"total_ms_p50": 101.5, "total_ms_p95": 101.95}
    assert summary.memory_mib == 300.0
    assert summary.groups["category"]["gpus"].n == 1
    assert [point.risk for point in summary.curve] == [0.0, 0.5, pytest.approx(2 / 3)]
    assert summary.threshold is None


def test_thresholds_are_chosen_on_development_questions_only() -> None:
    rows = [row(1, True, confidence=0.9, split="dev"), row(2, False, confidence=0.2, split="dev")]
    assert summarise_system(results("s", rows)).threshold == 0.9


def test_memory_of_a_server_is_not_known() -> None:
    made = results("s", [row(1, True)], settings={"id": "s", "base_url": "http://h/v1"})
    assert summarise_system(made).memory_mib is None


def test_tables_hold_what_was_computed() -> None:
    comparison = compare([GOOD, POOR])
    main = overview(comparison)
    assert main.rows[0][:2] == ("good", "40")
    assert main.rows[0][2].startswith("90.0 [")
    assert pairs(comparison).rows[0][:3] == ("good − poor", "40", "20 / 4 / 16")
    assert pairs(comparison).rows[0][3].startswith("+40.0 [") and pairs(comparison).rows[0][
        3
    ].endswith("*")
    assert discrimination(comparison).rows[0][:2] == ("right", "1 of 1")
    assert groups(comparison).rows[0][0] == "storage" and "(n=40)" in groups(comparison).rows[0][1]
    assert all_metrics(comparison).rows[1][:2] == ("all facts", "facts")
    assert abstention(comparison).rows[0][0] == "good"


def test_all_tables_have_as_many_cells_as_columns() -> None:
    for table in tables(compare([GOOD, POOR, SAME])):
        assert table.rows
        assert {len(cells) for cells in table.rows} == {len(table.columns)}


def test_markdown_escapes_bars() -> None:
    from hpcllm.evaluation.tables import Table

    text = to_markdown(Table("T", ("a", "b"), (("x|y", "z"),), "Note."), heading=2)
    assert text == "## T\n\n| a | b |\n| --- | --- |\n| x\\|y | z |\n\nNote.\n"


def test_one_system_has_no_pairs() -> None:
    titles = [table.title for table in tables(compare([GOOD]))]
    assert "Pairs" not in titles and "Results" in titles
