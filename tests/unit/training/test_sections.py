from __future__ import annotations

from hpcllm.training.sections import clean_heading
from tests.unit.training.helpers import STORAGE, sections


def test_sections_follow_the_heading_tree_and_leave_out_empty_ones() -> None:
    found = sections(STORAGE)
    assert [s.headings for s in found] == [("Scratch",), ("Find large folders",)]
    assert [b.kind for b in found[0].blocks] == ["text", "table"]


def test_topic_is_the_innermost_heading_that_says_something() -> None:
    text = "# Quotas\n\n## Home\n\n### Examples\n\nText of one line.\n"
    (section,) = sections(text)
    assert section.headings == ("Home", "Examples")
    assert section.topic == "Home"


def test_hash_lines_in_code_are_no_headings() -> None:
    (section,) = sections("# Page\n\n```bash\n# comment\n#SBATCH --mem=4G\n```\n")
    assert section.headings == ()


def test_language_is_told_from_the_text_where_the_page_states_english() -> None:
    text = "# Cotas\n\nVocê não pode gravar mais do que a cota permite na sua pasta.\n"
    assert sections(text)[0].language == "pt"


def test_heading_loses_numbering_symbols_and_markup() -> None:
    assert clean_heading("2.1 **Transfer** of `data` 🚪") == "Transfer of `data`"
