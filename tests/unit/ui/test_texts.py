from __future__ import annotations

import re
from pathlib import Path

import pytest

import hpcllm.ui
from hpcllm.ui.texts import HTML_LANGUAGES, LANGUAGES, NAMES, Texts, preferred_language, table_of

PLACE = re.compile(r"\{\w+\}")
SOURCES = "\n".join(
    path.read_text(encoding="utf-8") for path in Path(hpcllm.ui.__file__).parent.glob("*.py")
)


def test_all_languages_say_the_same_things_with_the_same_places() -> None:
    english = table_of("en")
    for language in LANGUAGES:
        table = table_of(language)
        assert table.keys() == english.keys()
        for key, text in table.items():
            assert sorted(PLACE.findall(text)) == sorted(PLACE.findall(english[key])), key
    assert NAMES.keys() == HTML_LANGUAGES.keys() == set(LANGUAGES)


def test_every_text_is_used() -> None:
    prefixes = ("reason.", "check.", "fallback.", "staff_")  # looked up by what they stand for
    unused = [
        key
        for key in table_of("en")
        if not key.startswith(prefixes)
        and not re.search(rf"""["']{re.escape(key.partition(".")[0])}""", SOURCES)
    ]
    assert unused == []


def test_numbers_choose_their_form() -> None:
    texts = Texts("pt")
    assert texts.count("reading", 1) == "Lendo um trecho"
    assert texts.count("reading", 6) == "Lendo 6 trechos"


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("pt-BR,pt;q=0.9,en;q=0.8", "pt"),
        ("de-DE,de;q=0.9,en;q=0.5,pt;q=0.7", "pt"),
        ("en-GB", "en"),
        ("fr", "en"),
        ("", "en"),
        ("pt;q=0,en", "en"),
        ("pt;q=x", "en"),
    ],
)
def test_the_browser_chooses_the_language(header: str, language: str) -> None:
    assert preferred_language(header) == language
