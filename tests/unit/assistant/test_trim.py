from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hpcllm.assistant.trim import trim_passage

from .helpers import GPU_TEXT, MAIL_TEXT, count_words


def trim(text: str, question: str, tokens: int) -> str:
    return trim_passage(text, question, tokens=tokens, count_tokens=count_words)


def test_what_fits_is_returned_as_it_is() -> None:
    assert trim(GPU_TEXT, "gpu", 1000) == GPU_TEXT


def test_a_table_row_keeps_its_header() -> None:
    text = (
        "Words before. " * 30
        + "\n\n| Queue | Limit |\n|---|---|\n"
        + "\n".join(f"| queue{i} | {i} hours |" for i in range(30))
    )
    shown = trim(text, "limit of queue17", 40)
    assert "| Queue | Limit |\n|---|---|\n" in shown
    assert "| queue17 | 17 hours |" in shown
    assert shown.startswith("…\n") and shown.endswith("\n…")


def test_a_fence_keeps_both_marks() -> None:
    code = "\n".join(f"step{i} --number {i}" for i in range(40))
    shown = trim(f"Intro.\n\n```bash\n{code}\n```\n\nAfter.", "step20", 40)
    assert shown.count("```") == 2
    assert "```bash\n" in shown and "step20 --number 20" in shown


def test_an_entry_keeps_its_terms() -> None:
    body = "\n\n    ".join(f"Paragraph {i} tells of thing{i} at length." for i in range(20))
    shown = trim(f"--mem=<size> {{#mem}}\n: {body}", "thing11", 40)
    assert "--mem=<size>\n" in shown and "thing11" in shown and "{#mem}" not in shown


def test_the_sentence_before_the_best_part_is_kept_with_it() -> None:
    text = (
        "Filler sentence here. " * 20
        + "\n\nUse this command:\n\n```\nsqueue --me\n```\n\n"
        + "End. " * 30
    )
    assert "Use this command:" in trim(text, "squeue --me", 30)


def test_nothing_is_shown_where_not_even_one_part_fits() -> None:
    assert trim("word " * 100, "word", 20) == ""


@given(st.integers(12, 80), st.sampled_from(["gpu cards", "time limit", "mail", "none"]))
def test_the_limit_holds(tokens: int, question: str) -> None:
    shown = trim(f"{GPU_TEXT}\n\n{MAIL_TEXT}", question, tokens)
    assert count_words(shown) <= tokens
    assert shown.count("```") % 2 == 0
