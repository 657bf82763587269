from __future__ import annotations

from dataclasses import replace

import pytest

from hpcllm.index.text import embedding_text, lexical_tokens, vector_key
from tests.unit.index.helpers import page


@pytest.mark.parametrize(
    ("text", "embedded"),
    [
        ('See [quota](https://x.example/q "t").', "See quota."),
        ("See [ACL](<https://x.example/a (b)>) and ![logo](l_(1).png)", "See ACL and logo"),
        ("## Use {#use}\n\nText", "Text"),
        ("## Other\n\nText", "## Other\n\nText"),
        ("| a | b |\n|---|:--:|\n| 1     | 2 |", "| a | b |\n| 1 | 2 |"),
        ("echo [x] (y)", "echo [x] (y)"),
    ],
    ids=["link", "brackets", "heading", "other heading", "table", "no link"],
)
def test_the_text_is_embedded_without_what_only_lays_it_out(text: str, embedded: str) -> None:
    chunk = page("a.md", [text], title="Disk")[1][0]
    assert embedding_text(chunk) == f"Disk: Use\n{embedded}"


def test_a_heading_that_repeats_the_title_is_embedded_once() -> None:
    chunk = replace(page("a.md", ["x"], title="Disk")[1][0], headings=("Disk", "Quota"))
    assert embedding_text(chunk) == "Disk: Quota\nx"


def test_the_key_of_a_vector_depends_on_what_is_embedded_and_on_nothing_else() -> None:
    chunk = page("a.md", ["x"], title="Disk")[1][0]
    assert vector_key(replace(chunk, position=7, path="b.md", id="other")) == vector_key(chunk)
    assert vector_key(replace(chunk, title="Disks")) != vector_key(chunk)


def test_title_and_headings_count_twice_keywords_and_text_once() -> None:
    chunk = page("a.md", ["limit"], title="Disk", heading="Quota", keywords="storage")[1][0]
    assert lexical_tokens(chunk) == ["disk", "disk", "quota", "quota", "storag", "limit"]
