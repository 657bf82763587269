from __future__ import annotations

import pytest

from hpcllm.corpus.readers.blocks import (
    Block,
    Code,
    Definitions,
    Heading,
    Item,
    Listing,
    Paragraph,
    Quote,
    Table,
    Term,
    cell_text,
    code_span,
    emphasised,
    plain,
    render,
)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (Heading(2, "A  b", "x_1"), "## A b {#x_1}"),
        (Heading(2, "A", "not usable"), "## A"),
        (Paragraph("# text"), "\\# text"),
        (Paragraph("#SBATCH is no heading"), "#SBATCH is no heading"),
        (Paragraph("a\n: b\n```"), "a\n\\: b\n\\```"),
        (Code("\n\ta  \n", "sh"), "```sh\n        a\n```"),
        (Code("  \n"), ""),
        (Table([["a", "b"], ["1"], ["", ""]]), "| a | b |\n| --- | --- |\n| 1 |  |"),
        (Table([["", ""], ["1", "2"]]), "|  |  |\n| --- | --- |\n| 1 | 2 |"),
        (Table([["", ""]], "Only a caption"), "Only a caption"),
        (Quote([Paragraph("a"), Paragraph("b")]), "> a\n>\n> b"),
        (Listing([[Paragraph("a")], [Paragraph("b")]], 9), "9. a\n10. b"),
        (Listing([[Code("c"), Paragraph("a")]]), "-\n  ```\n  c\n  ```\n\n  a"),
        (Listing([[Paragraph("a"), Code("c")]]), "- a\n\n  ```\n  c\n  ```"),
    ],
)
def test_one_block(block: Block, expected: str) -> None:
    assert render([block]) == expected


def test_definition_items() -> None:
    items = [
        Item([Term("-a", "opt-a"), Term("--all")], [Paragraph("one\ntwo"), Paragraph("three")]),
        Item([Term("code")], [Code("x = 1")]),
        Item([Term("bare", "b")]),
        Item([], [Paragraph("no name")]),
    ]
    assert render([Definitions(items)]) == (
        "-a {#opt-a}\n--all\n: one\n    two\n\n    three\n\n"
        "code\n\n```\nx = 1\n```\n\n- bare {#b}\n\nno name"
    )


def test_table_cells_hold_lists_and_items_on_one_line() -> None:
    blocks: list[Block] = [
        Paragraph("Either"),
        Listing([[Paragraph("a")], [Paragraph("b")]]),
        Definitions([Item([Term("c")], [Paragraph("d")])]),
        Code("e"),
    ]
    assert cell_text(blocks) == "Either a; b c: d `e`"


def test_inline_helpers() -> None:
    assert plain("**-t**, `--time` see [jobs](jobs.md)") == "-t, --time see jobs"
    assert code_span("a`b") == "`` a`b ``"
    assert emphasised(" very ", "**") == " **very** "
    assert emphasised("  ", "**") == "  "
