from __future__ import annotations

from importlib import resources

import pytest

from hpcllm.index.glossary import GLOSSARY_FILE, LONGEST_PHRASE, gloss
from hpcllm.index.search import Searcher
from tests.unit.index.helpers import page


@pytest.mark.parametrize(
    ("portuguese", "english"),
    [
        (
            "Qual é o tempo máximo de um job na partição gpu?",
            "which is maximum time limit job in partition gpu",
        ),
        ("cota do scratch", "quota scratch"),
        ("apago arquivos com rm -rf em /x/$USER?", "delete file with rm -rf in /x/$USER"),
        ("nó de login não abre", "login node not open"),
        ("variavel de ambiente para o modulo", "environment variable for module"),
    ],
)
def test_words_and_phrases_are_replaced_and_names_stay(portuguese: str, english: str) -> None:
    assert gloss(portuguese) == english


@pytest.mark.parametrize(
    "text",
    [
        "How do I submit a job as a student?",
        "no space left on device, what do I do with a file",
        "csc password expires after",
        "slurm data manual",
        "#SBATCH --gres=gpu:2",
        "",
    ],
)
def test_english_and_names_are_left_alone(text: str) -> None:
    assert gloss(text) is None


def test_every_line_of_the_list_is_an_entry() -> None:
    text = resources.files("hpcllm.index").joinpath(GLOSSARY_FILE).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) > 300
    for line in lines:
        phrases, equals, _ = line.partition("=")
        assert equals, line
        for phrase in phrases.split(","):
            assert 0 < len(phrase.split()) <= LONGEST_PHRASE, line


def test_a_page_in_english_answers_a_question_in_portuguese(searcher: type[Searcher]) -> None:
    pages = [page(f"{i}.md", [f"topic{i} of no interest at all here"]) for i in range(20)]
    quota = page("quota.md", ["The default quota of your home directory is fifty gigabytes."])
    search = searcher(*pages, quota).search  # type: ignore[call-arg, arg-type]
    assert search("qual é a cota padrão da pasta pessoal?")[0].path == "quota.md"
