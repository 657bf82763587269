from __future__ import annotations

import pytest

from hpcllm.assistant.language import detect_language, subject_words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("How do I cancel all of my jobs?", "en"),
        ("como cancelo todos os meus jobs", "pt"),
        ("versões do alphafold", "pt"),
        (
            "Por que meu job falha com 'Invalid account or combination specified'?",
            "pt",
        ),
        ("I get: sbatch: error: Batch job submission failed", "en"),
    ],
)
def test_the_language_of_function_words_wins(text: str, expected: str) -> None:
    assert detect_language(text) == expected


def test_keywords_without_function_words_take_the_default() -> None:
    assert detect_language("alphafold quota", "pt") == "pt"
    assert detect_language("alphafold quota", "en") == "en"


def test_subject_words_are_stems_options_and_paths_without_stop_words() -> None:
    words = subject_words("How do I use --gres=gpu:2 in /scratch for my jobs?")
    assert {"--gres=gpu:2", "--gres", "gpu", "/scratch", "scratch", "job"} <= words
    assert not {"how", "do", "i", "use", "for", "my"} & words
