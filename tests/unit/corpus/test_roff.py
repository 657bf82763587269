from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcllm.corpus.readers.base import RawFile
from hpcllm.corpus.readers.man_macros import ManPage
from hpcllm.corpus.readers.roff import Roff, Run, arguments, glyph, logical_lines


def test_font_changes_and_the_font_before() -> None:
    runs = Roff().runs(r"a\fBb\fIc\fPd\fRe")
    assert runs == [Run("R", "a"), Run("B", "b"), Run("I", "c"), Run("B", "d"), Run("R", "e")]


def test_font_of_a_macro_does_not_last() -> None:
    roff = Roff()
    assert roff.runs("x", "B") == [Run("B", "x")]
    assert roff.runs("y") == [Run("R", "y")]


def test_registers_count_up() -> None:
    roff = Roff(registers={"step": 0}, steps={"step": 1})
    assert roff.plain(r"\n+[step]. \n+[step]. \n[step]") == "1. 2. 2"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("em", "—"), ("u00E9", "é"), ("u0065_0301", "é"), ("'e", "é"), ("e aa", "é"),
     ("char65", "A"), ("uD800", ""), ("u0000", ""), ("no such", "")],
)  # fmt: skip
def test_glyphs(name: str, expected: str) -> None:
    assert glyph(name) == expected


def test_arguments() -> None:
    assert arguments('one "two words" "say ""hi""" x\\ y') == [
        "one", "two words", 'say "hi"', "x\\ y",
    ]  # fmt: skip
    assert arguments('"unclosed quote') == ["unclosed quote"]
    assert arguments("") == []


def test_comments_and_continued_lines() -> None:
    assert logical_lines('a\\\nb\n.\\" gone\nc\\" tail\nd\\\\\n') == ["ab", "c", "d\\\\", ""]


@given(st.text(alphabet="\\.'\"()[]{}fBIRPnsh*TPIRSEHeinf \n1a-", max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    page = ManPage(RawFile("man1/x.1", b"", Path("/nonexistent")))
    page.run(".TH x 1\n.SH A\n" + text)
    page.result()


@given(st.lists(st.from_regex(r"[a-z]{1,8}", fullmatch=True), min_size=1, max_size=30))
def test_plain_words_are_all_kept_in_order(words: list[str]) -> None:
    page = ManPage(RawFile("man1/x.1", b"", Path("/nonexistent")))
    page.run(".TH x 1\n.SH A\n" + "\n".join(words))
    assert page.result().text == "## A\n\n" + " ".join(words)
