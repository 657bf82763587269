"""Readers give for small inputs of every format what a person has looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import DATA, expected_path, inputs, rendered


@pytest.mark.parametrize("path", inputs(), ids=lambda path: path.relative_to(DATA).as_posix())
def test_output_is_as_recorded(path: Path) -> None:
    expected = expected_path(path).read_text(encoding="utf-8")
    assert rendered(path) == expected, "if this is meant: python -m tests.golden, read the diff"


def test_there_are_sixty_inputs_and_no_output_without_input() -> None:
    assert len(inputs()) >= 60
    known = {expected_path(path) for path in inputs()}
    assert set(DATA.rglob("*.expected")) == known
