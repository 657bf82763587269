from __future__ import annotations

from hpcllm.index.passages import join_texts

HEAD = "| a | b |\n|---|---|"


def test_texts_are_joined_by_a_blank_line() -> None:
    assert join_texts(["one", "two"]) == "one\n\ntwo"


def test_a_table_header_repeated_by_the_cut_stands_once() -> None:
    first, second, third = (f"{HEAD}\n| {n} | x |" for n in "123")
    assert join_texts([first, second, third]) == f"{HEAD}\n| 1 | x |\n| 2 | x |\n| 3 | x |"


def test_another_table_keeps_its_header() -> None:
    other = "| c | d |\n|---|---|\n| 1 | 2 |"
    assert join_texts([f"{HEAD}\n| 1 | x |", other]) == f"{HEAD}\n| 1 | x |\n\n{other}"


def test_text_between_tables_keeps_the_header() -> None:
    texts = [f"{HEAD}\n| 1 | x |\n\nText", f"{HEAD}\n| 2 | x |"]
    assert join_texts(texts) == "\n\n".join(texts)
