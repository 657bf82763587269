"""Settings from the environment: ``HPCLLM_SECTION__KEY`` overrides one key of ``hpcllm.toml``.

Role: reads texts into the shapes that the settings expect and remembers which variable a value
came from, so that a problem names what has to be changed. Values are validated with the file's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args, get_origin

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pydantic import BaseModel

PREFIX = "HPCLLM_"
SEPARATOR = "__"
"""Between section and key; variables without it (``HPCLLM_HOME``) are no settings."""


@dataclass(frozen=True, slots=True)
class Override:
    """A setting given by the environment.

    Attributes:
        variable: its name, such as ``HPCLLM_MODEL__ID``.
        text: its text as given.
        place: section, key and, in a table of numbers, the name in it.
        value: the text in the shape of the setting.
    """

    variable: str
    text: str
    place: tuple[str, ...]
    value: Any


def read_overrides(model: type[BaseModel], environment: Mapping[str, str]) -> list[Override]:
    """Return the settings that an environment gives, by the name of their variable.

    A list is separated by commas or a JSON array, a table a JSON object; an empty text stands for
    "none" where a setting may be left out. All else is taken as the text it is.

    Args:
        model: the settings; a key's annotation says how its text is read.
        environment: variables by name.
    """
    found = []
    for variable in sorted(environment):
        place = tuple(variable.removeprefix(PREFIX).lower().split(SEPARATOR))
        if variable.startswith(PREFIX) and len(place) > 1 and all(place):
            value = _shaped(environment[variable], _annotation_at(model, place))
            found.append(Override(variable, environment[variable], place, value))
    return found


def apply_overrides(data: dict[str, Any], overrides: Iterable[Override]) -> None:
    """Write overrides into the content of a settings file, making tables that it lacks."""
    for override in overrides:
        table: Any = data
        for name in override.place[:-1]:
            table = table.setdefault(name, {}) if isinstance(table, dict) else None
        if isinstance(table, dict):
            table[override.place[-1]] = override.value


def origin_of(
    location: tuple[int | str, ...], overrides: Iterable[Override], file_sections: Collection[str]
) -> Override | None:
    """Return the override that a problem comes from, or None where it is the file's.

    Args:
        location: place of the problem, as pydantic gives it.
        overrides: what the environment gave.
        file_sections: sections that the file itself has.
    """
    if len(location) == 1 and str(location[0]) in file_sections:
        return None
    shared = [o for o in overrides if _agree(o.place, location)]
    return max(shared, key=lambda override: len(override.place), default=None)


def expectation_of(model: type[BaseModel], place: tuple[str, ...]) -> str:
    """Return how a setting is written in the environment, or empty for one of plain text."""
    kinds = _kinds(_annotation_at(model, place))
    if kinds & {tuple, list}:
        return "a list is separated by commas or written as JSON"
    return "a table is written as a JSON object" if dict in kinds else ""


def _agree(place: tuple[str, ...], location: tuple[int | str, ...]) -> bool:
    return all(a == b for a, b in zip(place, location, strict=False))


def _annotation_at(model: type[BaseModel], place: tuple[str, ...]) -> Any:
    annotation: Any = model
    for name in place:
        fields = getattr(annotation, "model_fields", {})
        if name not in fields:
            return None
        annotation = fields[name].annotation
    return annotation


def _kinds(annotation: Any) -> set[Any]:
    """Return the plain types that an annotation allows, such as ``{str, NoneType}``."""
    origin = get_origin(annotation)
    if origin in (tuple, list, dict):
        return {origin}
    return {kind for a in get_args(annotation) for kind in _kinds(a)} if origin else {annotation}


def _shaped(text: str, annotation: Any) -> Any:
    kinds = _kinds(annotation)
    if type(None) in kinds and not text.strip():
        return None
    if kinds & {tuple, list}:
        parsed = _json(text)
        return parsed if isinstance(parsed, list) else _comma_separated(text)
    return _json(text) if dict in kinds else text


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _comma_separated(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
