from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcllm.assistant.units import (
    clean_inline,
    lines_of,
    row_text,
    split_row,
    split_sentences,
    split_units,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One thing. Another thing.", ["One thing.", "Another thing."]),
        (
            "Use e.g. Intel MPI or similar. Then stop.",
            ["Use e.g. Intel MPI or similar.", "Then stop."],
        ),
        ("Version 3.2. New in 24.11 only.", ["Version 3.2.", "New in 24.11 only."]),
        ("Run `a. B` first. `module load x` next.", ["Run `a. B` first.", "`module load x` next."]),
        ("Lê o ficheiro. Água fria, p.ex. Neve.", ["Lê o ficheiro.", "Água fria, p.ex. Neve."]),
        ("see slurm.conf. lower case goes on", ["see slurm.conf. lower case goes on"]),
        ("", []),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text: str, expected: list[str]) -> None:
    assert split_sentences(text) == expected


def test_an_overlong_sentence_is_cut_at_its_semicolons() -> None:
    sentence = " ".join(["word"] * 30) + "; " + " ".join(["more"] * 30) + "."
    assert [len(part.split()) for part in split_sentences(sentence)] == [30, 30]


def test_a_table_row_bears_its_header_and_skips_empty_cells() -> None:
    text = (
        "| Partition | Limit | Note |\n|---|:-:|---|\n| small | 3 days | |\n| `a\\|b` | 1 h | x |"
    )
    units = split_units(text)
    assert [unit.text for unit in units] == [
        "Partition: small; Limit: 3 days",
        "Partition: `a|b`; Limit: 1 h; Note: x",
    ]
    assert units[0].quote == "| Partition | Limit | Note |\n| small | 3 days | |"
    assert {unit.kind for unit in units} == {"row"}


def test_cells_beyond_the_header_are_kept() -> None:
    assert row_text(["a"], ["1", "2"]) == "a: 1; 2"
    assert split_row("x | y") == ["x", "y"]


def test_an_entry_leads_with_its_terms() -> None:
    text = (
        "-A, --account=<name> {#account}\n: Charge to it. Default is\n    none.\n\n"
        "    ```\n    sbatch -A x\n    ```"
    )
    first, second, code = split_units(text)
    assert (first.lead, first.text) == ("-A, --account=<name>", "Charge to it.")
    assert (second.lead, second.text) == ("-A, --account=<name>", "Default is none.")
    assert (code.kind, code.text, code.lead) == ("code", "sbatch -A x", "-A, --account=<name>")
    assert code.quote.startswith("-A, --account=<name>\n")


def test_code_has_the_sentence_before_it_as_context() -> None:
    intro, code = split_units(
        "Load the module:\n\n```bash\nmodule load gcc\n```", ("Top", "Compilers")
    )
    assert intro.context == "Compilers"
    assert code.context == "Compilers Load the module:"
    assert code.language == "bash"


def test_long_code_is_cut_at_blank_lines_and_comments_and_sbatch_lines_are_no_comments() -> None:
    code = "\n".join(
        ["#SBATCH -n 1", "#SBATCH -t 1", "", "# load", "module load a", "# run", "srun a", "x", "y"]
    )
    units = split_units(f"```\n{code}\n```")
    assert [unit.text for unit in units] == [
        "#SBATCH -n 1\n#SBATCH -t 1",
        "# load\nmodule load a",
        "# run\nsrun a\nx\ny",
    ]


def test_an_unclosed_fence_is_code_to_the_end() -> None:
    (unit,) = split_units("```\n# not a heading\nls")
    assert (unit.kind, unit.text) == ("code", "# not a heading\nls")


def test_nested_items_have_their_parent_as_context() -> None:
    units = split_units("- Outer item here\n    - Inner **bold** item\n- Next item")
    assert [unit.text for unit in units] == ["Outer item here", "Inner bold item", "Next item"]
    assert [unit.context for unit in units] == ["", "Outer item here", ""]


@pytest.mark.parametrize(
    "text", ["-", "- - - - x", "1.\n2.\n", "* \n\n: x", ": : y", "|\n|-|", "```", "> > a b"]
)
def test_degenerate_markdown_ends(text: str) -> None:
    split_units(text)


@given(st.text(alphabet="ab -*|:`#\n1.>[]()", max_size=80))
def test_any_text_is_split_with_ascending_positions(text: str) -> None:
    units = split_units(text)
    assert [unit.position for unit in units] == list(range(len(units)))


@given(st.lists(st.sampled_from(["alpha", "beta.", "Gamma", "`x. Y`", "3.1", "e.g."]), max_size=12))
def test_no_word_of_a_paragraph_is_lost(words: list[str]) -> None:
    text = " ".join(words)
    assert " ".join(split_sentences(text)) == text


def test_links_keep_their_label_and_only_absolute_targets() -> None:
    text = "See [here](../a.md#b), ![x](y.png) **and** [site](https://e.org/a_(b))."
    assert clean_inline(text) == "See here, and [site](https://e.org/a_(b))."


def test_quotes_are_the_lines_that_hold_the_sentence() -> None:
    lines = ["First sentence. Second", "sentence goes on. Third", "one is here."]
    assert lines_of("Second sentence goes on.", lines) == "\n".join(lines[:2])
