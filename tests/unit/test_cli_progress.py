from __future__ import annotations

import io

import pytest

from hpcllm.cli import progress
from hpcllm.cli.progress import LOG_EVERY_S, duration, progress_bar


class Clock:
    """A monotonic clock that is moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_log_is_told_now_and_then_how_far_a_long_work_is(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress_bar("smollm2-135m-cpu", "steps") as update:
        for _ in range(8):
            clock.now += LOG_EVERY_S / 2
            update(10, 2000)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "smollm2-135m-cpu: 20 of 2,000 steps in 30 s, 50 min left",
        "smollm2-135m-cpu: 40 of 2,000 steps in 60 s, 49 min left",
        "smollm2-135m-cpu: 60 of 2,000 steps in 2 min, 48 min left",
        "smollm2-135m-cpu: 80 of 2,000 steps in 2 min, 48 min left",
    ]


def test_work_of_unknown_length_is_counted(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress_bar("reading", "pages") as update:
        clock.now += LOG_EVERY_S
        update(1200)
    assert capsys.readouterr().err == "reading: 1,200 pages in 30 s\n"


def test_short_work_leaves_a_log_as_it_is(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("reading", "pages") as update:
        clock.now += LOG_EVERY_S - 1
        update(5, 10)
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar_and_no_lines(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress_bar("reading", "pages") as update:
        clock.now += 2 * LOG_EVERY_S
        update(5, 10)
    assert "left" not in terminal.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89, "89 s"), (95, "2 min"), (5340, "89 min"), (11_100, "3 h 5 min")],
)
def test_durations_are_told_as_people_do(seconds: float, text: str) -> None:
    assert duration(seconds) == text
