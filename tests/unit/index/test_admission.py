"""A generation that its gate holds back serves nobody, and is offered again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hpcllm.errors import EvaluationError, StoreError
from hpcllm.index.admission import offer_held
from hpcllm.index.generation import (
    Generation,
    current_name,
    held_name,
    list_generations,
    open_current,
    prune,
    put_in_use,
    recorded_inputs,
)
from tests.unit.index.conftest import Build
from tests.unit.index.helpers import page

Open = Callable[[], Generation]

A = page("a.md", ["The quota of home is 50 GB."])
B = page("b.md", ["Scratch is purged after 45 days."])
C = page("c.md", ["A job may run for 72 hours."])


def no(_: str) -> bool:
    return False


def test_the_gate_sees_a_complete_generation_while_the_old_one_serves(
    build: Build, index_dir: Path
) -> None:
    first = build(A).generation
    seen = []

    def admit(name: str) -> bool:
        with Generation(index_dir / name) as new:
            seen.append((name, current_name(index_dir), new.manifest.documents))
        return True

    second = build(A, B, admit=admit).generation
    assert seen == [(second, first, 2)]
    assert current_name(index_dir) == second and held_name(index_dir) is None


def test_what_is_refused_is_kept_aside(build: Build, index_dir: Path) -> None:
    first = build(A, inputs="one").generation
    report = build(A, B, inputs="two", admit=no)
    assert (report.generation, report.unchanged, report.chunks) == (first, False, 2)
    assert report.held == held_name(index_dir) != first
    assert current_name(index_dir) == first
    assert recorded_inputs(index_dir) == "one"


def test_a_gate_that_breaks_off_lets_nothing_through(build: Build, index_dir: Path) -> None:
    first = build(A).generation

    def broken(_: str) -> bool:
        raise EvaluationError("no questions")

    with pytest.raises(EvaluationError, match="no questions"):
        build(A, B, admit=broken)
    assert current_name(index_dir) == first
    assert held_name(index_dir) in list_generations(index_dir)


def test_a_held_generation_never_stands_in_for_a_damaged_one(build: Build, index_dir: Path) -> None:
    first = build(A).generation
    held = build(A, B, admit=no).held
    (index_dir / first / "rows.npy").write_bytes(b"")
    with pytest.raises(StoreError, match=rf"{first}.*damaged"):
        open_current(index_dir)
    (index_dir / "current").unlink()
    with pytest.raises(StoreError, match="current is missing"):
        open_current(index_dir)
    assert (index_dir / held).is_dir()


def test_without_anything_in_use_the_way_out_is_named(build: Build, index_dir: Path) -> None:
    report = build(A, admit=no)
    assert report.generation == "" and current_name(index_dir) is None
    with pytest.raises(StoreError, match=rf"held back.*hpcllm ingest --use {report.held}"):
        open_current(index_dir)


def test_it_is_offered_again_without_building(build: Build, index_dir: Path) -> None:
    build(A, inputs="one")
    held = build(A, B, inputs="two", admit=no).held
    assert offer_held(index_dir, inputs="other") is None
    again = offer_held(index_dir, inputs="two", admit=no)
    assert again is not None and again.held == held and again.unchanged
    now = offer_held(index_dir, inputs="two")
    assert now is not None and (now.generation, now.held, now.unchanged) == (held, "", False)
    assert current_name(index_dir) == held and held_name(index_dir) is None
    assert recorded_inputs(index_dir) == "two"
    assert offer_held(index_dir, inputs="two") is None


def test_the_same_text_from_touched_files_is_offered_again(build: Build, index_dir: Path) -> None:
    build(A, inputs="one")
    held = build(A, B, inputs="two", admit=no).held
    report = build(A, B, inputs="three", admit=lambda name: name == held)
    assert report.generation == held and report.embedded == 0
    assert recorded_inputs(index_dir) == "three"


def test_its_vectors_are_taken_over(build: Build, index_dir: Path) -> None:
    build(A)
    assert build(A, B, admit=no).embedded == 1
    report = build(A, B, C, admit=no)
    assert (report.embedded, report.reused) == (1, 2)


def test_one_is_kept_and_earlier_ones_go(build: Build, index_dir: Path) -> None:
    oldest = build(A, keep=2).generation
    first = build(B, keep=2).generation
    build(A, B, keep=2, admit=no)
    second = build(A, B, C, keep=2, admit=no).held
    assert list_generations(index_dir) == [second, first, oldest]
    third = build(C, keep=2, admit=lambda _: True).generation
    assert list_generations(index_dir) == [third, first]


def test_pages_taken_back_leave_the_one_in_use(build: Build, index_dir: Path) -> None:
    first = build(A, inputs="one").generation
    build(A, B, inputs="two", admit=no)
    report = build(A, inputs="three", admit=no)
    assert (report.generation, report.held, report.unchanged) == (first, "", True)


def test_by_hand_it_goes_in_use_and_back(build: Build, index_dir: Path) -> None:
    first = build(A, inputs="one").generation
    held = build(A, B, inputs="two", admit=no).held
    put_in_use(index_dir, held)
    assert (current_name(index_dir), held_name(index_dir)) == (held, None)
    assert recorded_inputs(index_dir) == "two"
    put_in_use(index_dir, first)
    assert prune(index_dir, keep=2) == []
    with open_current(index_dir) as generation:
        assert generation.name == first
    with pytest.raises(StoreError, match=rf"no generation 'gen-x'.*{held}"):
        put_in_use(index_dir, "gen-x")


def test_a_damaged_one_is_built_anew(build: Build, index_dir: Path) -> None:
    build(A)
    held = build(A, B, inputs="two", admit=no).held
    (index_dir / held / "manifest.json").write_text("{")
    assert offer_held(index_dir, inputs="two") is None
    report = build(A, B, inputs="two", admit=lambda _: True)
    assert report.generation not in ("", held) and report.embedded == 1
