from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcllm.ui.slack.render import Piece, escape, link, render
from hpcllm.ui.slack.splitting import sections

HOSTS = {"docs.example"}
URLS = {1: "https://docs.example/a?x=1&y=2#q", 2: None}


def shown(markdown: str) -> str:
    return "\n".join(p.text for p in render(markdown, url_of=URLS.get, hosts=HOSTS))


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("plain & <b>html</b>", "plain &amp; &lt;b&gt;html&lt;/b&gt;"),
        ("**bold** and *em* and ~~gone~~", "*bold* and _em_ and ~gone~"),
        ("**bold with `code`**", "*bold with `code`*"),
        ("a line\nand its rest", "a line and its rest"),
        ("a line  \nand another", "a line\nand another"),
        ("## Head with **bold** {#anchor}", "*Head with bold*"),
        ("[label](https://docs.example/p)", "<https://docs.example/p|label>"),
        ("[la|bel<x>](https://docs.example/p|q)", "<https://docs.example/p%7Cq|la|bel&lt;x&gt;>"),
        ("[relative](gpu.md)", "relative"),
        ("[script](javascript:alert)", "[script](javascript:alert)"),
        ("[else](https://evil.example/x)", "else (`https://evil.example/x`)"),
        ("see https://docs.example/p.", "see <https://docs.example/p>."),
        ("see https://evil.example/p.", "see https://evil.example/p."),
        ("![picture](https://docs.example/p.png)", "<https://docs.example/p.png|picture>"),
        ("said [1].", "said <https://docs.example/a?x=1&amp;y=2#q|[1]>."),
        ("said [2, 1]", "said [2]<https://docs.example/a?x=1&amp;y=2#q|[1]>"),
        ("`a < b [1]`", "`a &lt; b [1]`"),
        ("`` a`b ``", "a`b"),
        ("- one\n- two\n  - deep\n    1. first", "• one\n• two\n    ◦ deep\n        1. first"),
        ("3. three\n4. four", "3. three\n4. four"),
        ("> quoted\n>\n> more", "> quoted\n> more"),
        ("---", "———"),
        ("--mem {#mem}\n: How much & how.", "*--mem*\nHow much &amp; how."),
    ],
)
def test_markdown_becomes_mrkdwn(markdown: str, expected: str) -> None:
    assert shown(markdown) == expected


@pytest.mark.parametrize(
    "hostile",
    [
        "<!channel> <!here> <!everyone>",
        "**<!channel>**",
        "`<!channel>`",
        "```\n<!channel>\n```",
        "[x](<!channel>)",
        "[<!channel>](https://docs.example/)",
        "<@U123> <#C1> <!subteam^S1>",
        "&lt;!channel&gt;",
        "\\<!channel>",
        "| <!channel> |\n|---|\n| <@U1> |",
        "<https://docs.example/|<!channel>>",
        "https://docs.example/<!channel>",
        "# <!channel>",
        "<div><!channel></div>",
    ],
)
def test_nothing_in_a_text_can_address_people(hostile: str) -> None:
    text = shown(hostile)
    for sign in ("<!", "<@", "<#"):
        assert sign not in text


@given(st.text(alphabet="<>!@#&|`*_[](){}-:/ \nabhtps.", max_size=80))
def test_every_angle_bracket_is_a_link_to_a_known_host(text: str) -> None:
    rendered = shown(text)
    for piece in rendered.split("<")[1:]:
        assert piece.startswith(("https://docs.example", "http://docs.example"))


def test_code_keeps_its_spaces_and_cannot_end_its_fence() -> None:
    pieces = render("````bash\nif x; then\n    echo ```\nfi\n````")
    assert pieces == [Piece("code", "if x; then\n    echo '''\nfi")]


def test_code_in_a_list_stands_between_the_items_prose() -> None:
    pieces = render("- one\n\n  ```\n  ls\n  ```\n\n  after\n- two")
    assert [(p.kind, p.text) for p in pieces] == [
        ("text", "• one"),
        ("code", "ls"),
        ("text", "    after\n• two"),
    ]


def test_a_table_is_aligned_in_monospace() -> None:
    [piece] = render("| Queue | Limit |\n|---|---|\n| `gpu` | 24 h |\n| long-queue | <7 d [1] |")
    assert piece == Piece(
        "code",
        "Queue       Limit\n----------  --------\ngpu         24 h\nlong-queue  &lt;7 d [1]",
        "Queue       Limit\n----------  --------\n",
    )


def test_a_table_that_is_too_wide_is_a_list() -> None:
    wide = "words " * 20
    [piece] = render(f"| Name | What |\n|---|---|\n| a | {wide}|\n| b | |")
    assert piece == Piece("text", f"• *a* — What: {wide.strip()}\n• *b*")


def test_a_link_without_a_web_address_is_its_label() -> None:
    assert link("file:///etc/passwd", "a & b") == "a &amp; b"
    assert link(None, "x") == "x"
    assert link("https://x.example/" + "a" * 2000, "long") == "long"
    assert link("https://x.example/<!channel>", "x") == "<https://x.example/%3C!channel%3E|x>"


def test_escape_is_undone_by_slack() -> None:
    assert escape("a<b>&amp;") == "a&lt;b&gt;&amp;amp;"


def test_rendered_pieces_fit_sections() -> None:
    text = "\n\n".join(["# Head", "word " * 2000, "```\n" + "line\n" * 2000 + "```"])
    assert all(0 < len(part) <= 2900 for part in sections(render(text)))
