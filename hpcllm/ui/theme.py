"""Branding and starter questions of a workspace: ``ui/theme.toml`` and ``ui/starters.toml``.

Role: reads and validates the two files; without them the pages have the product's own look.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from hpcllm.errors import ConfigError
from hpcllm.workspace import problems_of, read_toml

THEME_FILE = "theme.toml"
STARTERS_FILE = "starters.toml"
LOGO_BYTES = 200_000
"""Largest logo."""
LOGO_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}
MINIMUM_CONTRAST = 4.5
"""Contrast of text on the accent colour that WCAG 2.1 asks for (level AA)."""
PAPER = {"accent": "#ffffff", "accent_dark": "#14181c"}
"""Text colours on the accent, in light and dark."""

Colour = Annotated[str, StringConstraints(pattern=r"^#[0-9a-fA-F]{6}$")]
Model = TypeVar("Model", bound=BaseModel)
Address = Annotated[str, StringConstraints(pattern=r"^(https?://\S+)?$")]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Notice(_Table):
    """A notice of the day, by language of the interface; empty shows none."""

    en: str = Field("", max_length=400)
    pt: str = Field("", max_length=400)


class Theme(_Table):
    """How the pages look."""

    name: str = Field("", max_length=60)
    """Shown as the assistant's name; empty takes ``[site] name`` of ``hpcllm.toml``."""
    accent: Colour = "#0b6268"
    """Colour of buttons and links on light; white text must be readable on it."""
    accent_dark: Colour = "#6cc5c4"
    """The same on dark; dark text must be readable on it."""
    logo: str = "logo.svg"
    """File beside ``theme.toml``, SVG or PNG; empty shows none."""
    help_url: Address = ""
    """Where the help link leads; empty shows none."""
    notice: Notice = Notice()
    """Notice of the day, such as a maintenance."""


class Starter(_Table):
    """A question to begin with."""

    question: str = Field(min_length=3, max_length=300)
    language: Literal["en", "pt"] = "en"
    title: str = Field("", max_length=60)
    """What it is about, in a word or two."""


class _Starters(_Table):
    starter: tuple[Starter, ...] = ()


def load_theme(folder: Path) -> Theme:
    """Read the theme of a workspace.

    Args:
        folder: the workspace's ``ui`` folder.

    Raises:
        ConfigError: the file is wrong, a colour is hard to read, or the logo cannot be used.
    """
    path = folder / THEME_FILE
    if not path.is_file():
        return Theme(logo="")
    theme = _validate(Theme, path)
    problems = [*_hard_to_read(theme), *_wrong_logo(folder, theme.logo)]
    if problems:
        raise ConfigError(f"{path} has {len(problems)} problem(s):", problems)
    return theme


def load_starters(folder: Path) -> tuple[Starter, ...]:
    """Read the starter questions of a workspace; none where there is no such file.

    Raises:
        ConfigError: the file is wrong.
    """
    path = folder / STARTERS_FILE
    return _validate(_Starters, path).starter if path.is_file() else ()


def logo_of(folder: Path, theme: Theme) -> tuple[bytes, str] | None:
    """Return the content and media type of the logo, or None where there is none."""
    if not theme.logo:
        return None
    path = folder / theme.logo
    return path.read_bytes(), LOGO_TYPES[path.suffix.lower()]


def contrast(first: str, second: str) -> float:
    """Return the contrast of two colours, 1 to 21 (WCAG 2.1, "contrast ratio")."""
    lighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def variables(theme: Theme) -> str:
    """Return the style sheet that gives the theme's colours to the pages."""
    light = f"--hl-accent:{theme.accent};--hl-on-accent:{PAPER['accent']}"
    dark = f"--hl-accent:{theme.accent_dark};--hl-on-accent:{PAPER['accent_dark']}"
    return f":root{{{light}}}\n.dark{{{dark}}}\n"


def _validate(model: type[Model], path: Path) -> Model:
    try:
        return model.model_validate(read_toml(path))
    except ValidationError as exc:
        raise ConfigError(
            f"{path} has {exc.error_count()} problem(s):", list(problems_of(exc, model))
        ) from exc


def _hard_to_read(theme: Theme) -> list[str]:
    found = []
    for name, paper in PAPER.items():
        ratio = contrast(getattr(theme, name), paper)
        if ratio < MINIMUM_CONTRAST:
            wanted = "darker" if name == "accent" else "lighter"
            found.append(
                f"{name}: text in {paper} on {getattr(theme, name)} has a contrast of {ratio:.1f}, "
                f"expected at least {MINIMUM_CONTRAST}: take a {wanted} colour"
            )
    return found


def _wrong_logo(folder: Path, name: str) -> list[str]:
    if not name:
        return []
    path = folder / name
    if Path(name).name != name or path.suffix.lower() not in LOGO_TYPES:
        return [f"logo: expected the name of an .svg or .png file beside the theme, got {name!r}"]
    if not path.is_file():
        return [f'logo: {name!r} is not there: add it, or set logo = "" for none']
    if path.stat().st_size > LOGO_BYTES:
        return [f"logo: {name!r} has {path.stat().st_size} bytes, at most {LOGO_BYTES} are taken"]
    return []


def _luminance(colour: str) -> float:
    parts = [int(pair, 16) / 255 for pair in re.findall("..", colour[1:])]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
