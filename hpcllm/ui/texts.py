"""Everything the pages say themselves, in each language of the interface.

Role: one table a language, with the same keys (a test compares them). Sentences of answers come
from the assistant; names, notices and starter questions from the workspace.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

LANGUAGES = ("en", "pt")
"""Codes of the languages of the interface; ``texts_<code>.toml`` holds what it says."""
NAMES = {"en": "English", "pt": "Português"}
"""What speakers call their language."""
HTML_LANGUAGES = {"en": "en", "pt": "pt-BR"}
"""What a page says it is written in."""
DEFAULT_LANGUAGE = "en"


class Texts:
    """The texts of one language.

    Args:
        language: one of :data:`LANGUAGES`.

    Attributes:
        language: as given.
    """

    def __init__(self, language: str) -> None:
        self.language = language
        self._table = table_of(language)

    def __call__(self, key: str, **values: object) -> str:
        """Return a text with its ``{places}`` filled in."""
        text = self._table[key]
        return text.format(**values) if values else text

    def find(self, key: str, default: str = "") -> str:
        """Return a text, or ``default`` where there is none of that key."""
        return self._table.get(key, default)

    def count(self, key: str, number: int) -> str:
        """Return the text ``key.one`` or ``key.many`` with ``{n}`` filled in."""
        return self(f"{key}.{'one' if number == 1 else 'many'}", n=number)


@cache
def table_of(language: str) -> dict[str, str]:
    """Return all texts of a language by key."""
    path = Path(__file__).with_name(f"texts_{language}.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def preferred_language(accept_language: str, fallback: str = DEFAULT_LANGUAGE) -> str:
    """Return the language of the interface that a browser prefers.

    Args:
        accept_language: the header, such as ``pt-BR,pt;q=0.9,en;q=0.5``.
        fallback: taken where it names none that the interface speaks.
    """
    weighed = []
    for position, part in enumerate(accept_language.split(",")):
        tag, *parameters = part.split(";")
        code = tag.strip().lower().partition("-")[0]
        weight = _weight(parameters)
        if code in LANGUAGES and weight > 0:
            weighed.append((-weight, position, code))
    return min(weighed)[2] if weighed else fallback


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.strip().partition("=")
        if name == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
