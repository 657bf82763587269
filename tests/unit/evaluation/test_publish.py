from __future__ import annotations

from pathlib import Path

import pytest

from hpcllm.errors import EvaluationError
from hpcllm.evaluation.publish import (
    COLUMNS,
    DISCRIMINATION,
    RESULTS,
    SHORT_RESULTS,
    markers,
    publish,
    published_parts,
    published_table,
)
from hpcllm.evaluation.reproduction import merged, reference_of
from tests.unit.evaluation.helpers import results, row

RUN = {"date": "2026-01-02T03:04:05+00:00", "machine": "x86_64, 2 cores"}
SCORES = {"commands_share": 0.5, "citation_precision": 1.0, "words": 30.0}
ONE = results(
    "one",
    [
        row(1, True, scores=SCORES, measured={"total_ms": 2000.0, "first_token_ms": 500.0}),
        row(2, False, scores=SCORES, measured={"total_ms": 4000.0, "peak_memory_mib": 1234.5}),
        row(3, True, answerable=False, scores={"refused_right": 1.0, "refused_wrong": None}),
    ],
    run=RUN,
    commit="abc",
)
TWO = results("two", [row(n, n == 1) for n in (1, 2, 3)], run={**RUN, "date": "2026-01-04T00"})
IDS = ["q1", "q2", "q3"]
ROWS = {
    each: reference_of([each_results], IDS)["systems"][each]
    for each, each_results in (("one", ONE), ("two", TWO))
}


def test_the_columns_by_hand() -> None:
    table = published_table({"one": ROWS["one"]}, intervals=False)
    cells = dict(zip(COLUMNS, table.rows[0], strict=True))
    assert cells["system"] == "one" and cells["n"] == "3"
    assert cells["right [95 %]"].startswith("66.7 [")
    assert (cells["facts"], cells["commands"], cells["citations hold"]) == ("66.7", "50.0", "100.0")
    assert cells["refused rightly / wrongly"] == "100.0 / 0.0"
    assert (cells["words"], cells["first token s"]) == ("30.0", "0.50")
    assert (cells["answer s, p50"], cells["p95"]) == ("2.00", "3.80")
    assert cells["peak memory MiB"] == "1,234"


def test_intervals_are_a_matter_of_room() -> None:
    wide, narrow = (
        published_table({"one": ROWS["one"]}, intervals=each).rows[0] for each in (True, False)
    )
    assert wide[3].startswith("66.7 [") and narrow[3] == "66.7"
    assert wide[2] == narrow[2]


def test_the_note_says_where_the_numbers_come_from() -> None:
    note = published_table(ROWS, intervals=False).note
    runs = "one: 2026-01-02, commit abc; the others: 2026-01-04, commit unknown."
    assert f"Measured on x86_64, 2 cores, {runs}" in note
    alone = published_table({"one": ROWS["one"]}, intervals=False).note
    assert alone.endswith("Measured on x86_64, 2 cores, 2026-01-02, commit abc.")


def test_places_are_filled_and_the_rest_stays(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    begin, end = markers(SHORT_RESULTS)
    path.write_text(f"# Title\n\n{begin}\nstale row\n{end}\n\nTail.\n")
    parts = published_parts(ROWS, [ONE, TWO])
    assert parts[DISCRIMINATION].count("<summary>Every pair</summary>") == 1
    assert publish([path], parts) == [path]
    text = path.read_text()
    assert text.startswith(f"# Title\n\n{begin}\n\n| system | n | right [95 %] |")
    assert text.endswith(f"\n\n{end}\n\nTail.\n") and "stale row" not in text
    assert publish([path], parts) == []


def test_every_place_of_a_file_is_filled(tmp_path: Path) -> None:
    path = tmp_path / "evaluation.md"
    path.write_text("\n".join(m for name in (RESULTS, DISCRIMINATION) for m in markers(name)))
    publish([path], published_parts(ROWS, [ONE, TWO]))
    text = path.read_text()
    assert "| two | 3 |" in text and "| facts | 0 of 1 |" in text
    publish([path], published_parts(ROWS, [ONE]))
    assert path.read_text() == text
    publish([path], published_parts({"one": ROWS["one"]}, [ONE]))
    assert "nothing to tell apart" in path.read_text() and "| two |" not in path.read_text()


def test_rows_of_systems_that_are_not_given_stay() -> None:
    ids = [row.id for row in ONE.rows]
    both, one = reference_of([ONE, TWO], ids), reference_of([ONE], ids)
    assert merged(one, both) == both
    assert "rerun" in both["systems"]["two"]
    other = reference_of([ONE], ids[:2])
    kept = merged(other, both)
    assert kept["rerun"] == other["rerun"]
    assert "rerun" not in kept["systems"]["two"] and "rerun" in kept["systems"]["one"]
    few = reference_of([results("one", [row(1, True)])], ids)
    assert merged(few, both)["rerun"] == both["rerun"]


def test_without_a_place_nothing_is_written_anywhere(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.md", tmp_path / "bad.md"
    good.write_text("\n".join(markers(RESULTS)))
    before = good.read_text()
    bad.write_text("# No place\n")
    with pytest.raises(EvaluationError, match=r"bad\.md has no place for results: add the lines"):
        publish([good, bad], published_parts({"one": ROWS["one"]}, [ONE]))
    bad.write_text(markers(RESULTS)[0])
    with pytest.raises(EvaluationError, match=r"no '<!-- results: end -->' after it: add"):
        publish([good, bad], published_parts({"one": ROWS["one"]}, [ONE]))
    with pytest.raises(EvaluationError, match="cannot be published"):
        publish([good, tmp_path / "absent.md"], published_parts({"one": ROWS["one"]}, [ONE]))
    assert good.read_text() == before
