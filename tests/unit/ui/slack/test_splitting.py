from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hpcllm.ui.slack.render import Piece, render
from hpcllm.ui.slack.splitting import MESSAGE_CHARACTERS, messages, sections


def text(content: str) -> Piece:
    return Piece("text", content)


def test_pieces_are_joined_while_they_fit() -> None:
    pieces = [text("one"), text("two"), Piece("code", "ls"), text("three")]
    assert sections(pieces) == ["one\n\ntwo\n```\nls\n```\nthree"]


def test_a_cut_comes_between_paragraphs() -> None:
    assert sections([text("a" * 6), text("b" * 6)], limit=10) == ["a" * 6, "b" * 6]


def test_a_long_paragraph_is_cut_at_a_sentence_else_at_a_word() -> None:
    assert sections([text("One two. Three four")], limit=15) == ["One two.", "Three four"]
    assert sections([text("one two three four")], limit=10) == ["one two", "three four"]
    assert sections([text("x" * 25)], limit=10) == ["x" * 10, "x" * 10, "x" * 5]


def test_code_is_cut_between_lines_each_part_in_its_own_fence() -> None:
    parts = sections([Piece("code", "\n".join(["  line"] * 6))], limit=22)
    assert parts == ["```\n  line\n  line\n```"] * 3


def test_a_table_repeats_its_head() -> None:
    piece = Piece("code", "A\n-\n" + "\n".join("1234"), head="A\n-\n")
    assert sections([piece], limit=16) == ["```\nA\n-\n1\n2\n```", "```\nA\n-\n3\n4\n```"]


def test_a_link_and_an_escaped_character_are_not_cut() -> None:
    assert sections([text("wordword <https://x|y>")], limit=18) == ["wordword", "<https://x|y>"]
    assert sections([text("aaaaaaa&amp;bbb")], limit=10) == ["aaaaaaa", "&amp;bbb"]


def test_messages_hold_no_more_than_slack_takes() -> None:
    grouped = messages(["x" * 2900] * 7)
    assert [len(group) for group in grouped] == [2, 2, 2, 1]
    assert all(sum(map(len, group)) <= MESSAGE_CHARACTERS for group in grouped)
    assert [len(group) for group in messages(["x"] * 90)] == [40, 40, 10]
    assert messages([]) == [[]]


@given(
    st.lists(st.text(alphabet="ab \n.&<", min_size=1, max_size=300), max_size=6),
    st.integers(40, 120),
)
def test_no_word_is_lost_and_no_fence_left_open(paragraphs: list[str], limit: int) -> None:
    pieces = render("\n\n```\ncode\n```\n\n".join(paragraphs))
    parts = sections(pieces, limit=limit)
    assert all(0 < len(part) <= limit for part in parts)
    assert all(part.count("```") % 2 == 0 for part in parts)
    kept = "".join("".join(parts).replace("```", "").split())
    assert kept == "".join("".join("".join(p.text for p in pieces).split()).split())
