"""The chunker loses nothing, repeats nothing but names, and never tears a block."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcllm.corpus.blocks import parse_blocks, without_anchor
from hpcllm.corpus.chunker import _Packer, chunk_document
from hpcllm.records import Document


def count_words(text: str) -> int:
    return len(text.split())


def chunk(text: str, *, target: int = 30, limit: int = 40, **extra: object):
    document = Document("s", "p.md", "Page", text, **extra)
    return chunk_document(document, count_tokens=count_words, target=target, limit=limit)


WORDS = st.sampled_from(
    ["the", "job", "queue", "sbatch", "--time=1:00", "memory", "`srun`", "quota", "#SBATCH", "é"]
)
SENTENCE = st.lists(WORDS, min_size=1, max_size=25).map(" ".join)
PARAGRAPH = st.lists(SENTENCE, min_size=1, max_size=6).map(
    lambda lines: "\n".join(line.replace("#SBATCH", "SBATCH") for line in lines)
)
HEADING = st.tuples(st.integers(1, 4), SENTENCE).map(lambda pair: f"{'#' * pair[0]} {pair[1]}")
CODE_LINE = st.sampled_from(
    ["#SBATCH -n 4", "# a comment", "## two", "srun ./a.out", "", "| x |", "  indented"]
)
FENCE = st.lists(CODE_LINE, min_size=1, max_size=40).map(
    lambda lines: "```bash\n" + "\n".join(lines) + "\nend\n```"
)
TABLE = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=40).map(
    lambda rows: "| name | value |\n|---|---|\n" + "\n".join(f"| {a} | {b} |" for a, b in rows)
)
ITEM = st.tuples(WORDS, st.lists(SENTENCE, min_size=1, max_size=5)).map(
    lambda pair: f"**{pair[0].replace('#', '')}**\n: " + "\n\n    ".join(pair[1])
)
LIST = st.lists(SENTENCE, min_size=1, max_size=12).map(
    lambda items: "\n".join(f"- {item}" for item in items)
)
PAGE = st.lists(st.one_of(PARAGRAPH, HEADING, FENCE, TABLE, ITEM, LIST), max_size=14).map(
    "\n\n".join
)


def squeeze(text: str) -> str:
    return re.sub(r"\s+", "", text)


@settings(max_examples=300, deadline=None)
@given(PAGE, st.integers(8, 60))
def test_bodies_of_all_pieces_are_the_document(text: str, target: int) -> None:
    document = Document("s", "p.md", "Page", text)
    drafts = _Packer(document, count_words, target, target + 15).run()
    bodies = "".join(piece.body for draft in drafts for piece in draft.pieces)
    assert squeeze(bodies) == squeeze(text)


@settings(max_examples=200, deadline=None)
@given(PAGE, st.integers(8, 60))
def test_fences_balance_and_table_rows_have_their_header(text: str, target: int) -> None:
    for piece in chunk(text, target=target, limit=target + 15):
        marks = [line for line in piece.text.split("\n") if line.startswith("```")]
        assert len(marks) % 2 == 0
        outside = re.sub(r"```.*?```", "", piece.text, flags=re.DOTALL)
        rows = [line for line in outside.split("\n") if line.startswith("| ")]
        assert not rows or rows[0] == "| name | value |"


@settings(max_examples=100, deadline=None)
@given(PAGE)
def test_ids_are_unique_and_do_not_depend_on_the_run(text: str) -> None:
    first = [piece.id for piece in chunk(text)]
    assert first == [piece.id for piece in chunk(text)]
    assert len(set(first)) == len(first)


@settings(max_examples=100, deadline=None)
@given(PAGE)
def test_blocks_hold_every_line_once(text: str) -> None:
    lines = [line for block in parse_blocks(text) for line in block.lines if line.strip()]
    assert lines == [line for line in text.split("\n") if line.strip()]


def test_a_hash_line_inside_a_fence_is_no_heading() -> None:
    [only] = chunk("# Job\n\n```bash\n# load\n#SBATCH -n 1\n## x\n```\n")
    assert only.headings == ("Job",)
    assert "#SBATCH -n 1\n## x\n```" in only.text


def test_heading_path_follows_the_levels() -> None:
    long = "word " * 70
    text = f"# Top\n\n{long}\n\n## A\n\n{long}\n\n### B\n\n{long}\n\n## C\n\n{long}"
    paths = [piece.headings for piece in chunk(text, target=80, limit=90)]
    assert paths == [("Top",), ("Top", "A"), ("Top", "A", "B"), ("Top", "C")]


def test_explicit_anchor_goes_into_the_address_and_not_into_the_text() -> None:
    [only] = chunk("# Walltime {#wt}\n\nTen days.", url="https://docs.example/limits/")
    assert only.url == "https://docs.example/limits/#wt"
    assert only.text == "# Walltime\n\nTen days."


def test_an_entry_is_a_chunk_with_its_term_as_last_heading() -> None:
    filler = "limit " * 45
    text = f"## Options\n\n**-t**, **--time**=<t> {{#opt-time}}\n: {filler}\n\n**-n**\n: {filler}"
    first, second = chunk(text, target=60, limit=80)
    assert first.headings == ("Options", "-t, --time=<t>")
    assert first.anchor == "opt-time"
    assert without_anchor("**-n**") in second.text
    assert second.headings == ("Options", "-n")


def test_an_over_long_entry_repeats_its_term() -> None:
    paragraphs = "\n\n    ".join("word " * 20 for _ in range(6))
    pieces = chunk(f"**--gres**=<list>\n: {paragraphs}", target=40, limit=50)
    assert len(pieces) > 1
    assert all("--gres" in piece.text for piece in pieces)


@pytest.mark.parametrize("lead", ["**--lua**\n: ", "- "])
def test_long_code_inside_an_entry_or_a_list_is_cut_into_whole_fences(lead: str) -> None:
    code = "\n\n".join(f"    local x{n} = do_something({n})" for n in range(80))
    text = f"{lead}Example:\n\n    ```lua\n{code}\n    ```\n\n    after it"
    pieces = chunk(text)
    assert len(pieces) > 3
    assert all(piece.text.count("```") % 2 == 0 for piece in pieces)
    assert max(count_words(piece.text) for piece in pieces) < 120
    joined = "".join(piece.text for piece in pieces)
    assert [joined.count(f"local x{n} =") for n in range(80)] == [1] * 80


def test_an_inner_entry_gives_its_name_and_anchor_to_the_chunk_it_begins() -> None:
    inner = "\n\n".join(
        f"    **flag_{n}** {{#opt-flag-{n}}}\n    : {'meaning ' * 30}" for n in range(3)
    )
    pieces = chunk(f"**Params** {{#opt-params}}\n: Options.\n\n{inner}")
    assert [piece.anchor for piece in pieces[1:]] == ["opt-flag-0", "opt-flag-1", "opt-flag-2"][
        -len(pieces[1:]) :
    ]
    assert pieces[-1].headings == ("Params", "flag_2")
    assert not any("{#" in piece.text for piece in pieces)


def test_a_label_keeps_the_signs_that_belong_to_it() -> None:
    [only] = chunk("**--distribution**={*|block|cyclic}\n: " + "text " * 45, target=80, limit=90)
    assert only.headings == ("--distribution={*|block|cyclic}",)


def test_the_sentence_before_a_fence_stays_with_it() -> None:
    prose = "text " * 28
    code = "```bash\n" + "srun hostname\n" * 8 + "```"
    pieces = chunk(f"# A\n\n{prose}\n\nRun this command:\n\n{code}", target=32, limit=40)
    [with_code] = [piece for piece in pieces if "srun" in piece.text]
    assert "Run this command:" in with_code.text


def test_a_long_table_repeats_its_header_and_keeps_row_order() -> None:
    rows = "\n".join(f"| p{n} | {n} h |" for n in range(30))
    pieces = chunk(f"| partition | limit |\n|---|---|\n{rows}")
    assert len(pieces) > 1
    assert all(piece.text.startswith("| partition | limit |\n|---|---|\n") for piece in pieces)
    numbers = [int(n) for piece in pieces for n in re.findall(r"\| p(\d+)", piece.text)]
    assert numbers == list(range(30))


def test_identical_pieces_of_one_section_get_different_ids() -> None:
    text = "# A\n\n" + "\n\n".join(["same words here " * 10] * 3)
    ids = [piece.id for piece in chunk(text, target=25, limit=35)]
    assert len(set(ids)) == len(ids) > 1


def test_an_id_survives_a_change_elsewhere_on_the_page() -> None:
    tail = "## Second\n\n" + "stable words " * 19
    before = chunk("## First\n\n" + "a b c " * 25 + "\n\n" + tail)
    after = chunk("## First\n\n" + "d e f g " * 30 + "\n\n" + tail)
    assert before[-1].id == after[-1].id


@pytest.mark.parametrize("text", ["", "\n\n \n", "#\n"])
def test_little_or_no_text_does_no_harm(text: str) -> None:
    assert all(piece.text.strip() for piece in chunk(text))


def test_positions_and_lines_rise() -> None:
    pieces = chunk("\n\n".join(f"## H{n}\n\n" + "word " * 50 for n in range(5)))
    assert [piece.position for piece in pieces] == list(range(len(pieces)))
    assert all(a.line < b.line for a, b in pairwise(pieces))


def test_target_above_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="target must be between 1 and limit=5, got 9"):
        chunk("x", target=9, limit=5)


LONG = " ".join(["word"] * 32)
"""Text that fills a chunk of the default target by itself with what stands before it."""


@pytest.mark.parametrize("label", ["**Warning:**", "**Note: Memory figures**", "**Tip**:"])
def test_the_label_of_a_box_stays_with_its_text(label: str) -> None:
    chunks = chunk(f"# T\n\n{LONG}\n\n{label}\n\n{LONG}", target=40, limit=60)
    assert [c.text.split("\n\n")[0] for c in chunks] == ["# T", label]
    assert chunks[1].text == f"{label}\n\n{LONG}"


def test_a_bold_line_that_ends_with_a_colon_stays_with_its_list() -> None:
    chunks = chunk(f"# T\n\n{LONG}\n\n**The options are:**\n\n- {LONG}\n- two", target=40, limit=60)
    assert chunks[1].text.startswith("**The options are:**\n\n- word")


def test_a_caption_stays_with_its_table() -> None:
    table = f"| a | b |\n| --- | --- |\n| {LONG} | 2 |"
    chunks = chunk(f"# T\n\n{LONG}\n\nMemory by job type\n\n{table}", target=40, limit=60)
    assert chunks[1].text == f"Memory by job type\n\n{table}"


def test_links_are_no_part_of_a_heading_path_or_its_anchor() -> None:
    [found] = chunk("## The [`sbatch`](<https://x.example/a (b).html>) command\n\nx")
    assert (found.headings, found.anchor) == (("The `sbatch` command",), "the-sbatch-command")
    [found] = chunk("## See [the guide](guide.md)\n\nx")
    assert (found.headings, found.anchor) == (("See the guide",), "see-the-guide")


def test_an_over_long_inner_entry_repeats_both_terms() -> None:
    first, second = ["one. " * 30, "two. " * 30]
    text = f"**Outer**\n: Options are:\n\n    **inner**\n    : {first}{second}"
    chunks = chunk(text, target=30, limit=40)
    assert len(chunks) > 2
    for found in chunks[1:]:
        assert found.text.startswith("**Outer**\n: …\n\n    **inner**\n    : ")
    assert "    : …\n\n        " in chunks[-1].text
    assert sum(found.text.count("one.") for found in chunks) == 30
    assert sum(found.text.count("two.") for found in chunks) == 30


def test_the_rest_of_an_over_long_paragraph_keeps_its_column() -> None:
    text = "- lead:\n\n" + "  " + "word and more. " * 30
    chunks = chunk(text, target=30, limit=40)
    assert len(chunks) > 1
    assert all(found.text.startswith("  word") for found in chunks[1:])


def test_the_rest_of_an_entry_s_first_paragraph_stands_in_the_column_of_its_text() -> None:
    chunks = chunk("**--mem**\n: " + "word and more. " * 30, target=30, limit=40)
    assert len(chunks) > 1
    assert all(found.text.startswith("**--mem**\n: …\n\n    word") for found in chunks[1:])
