from __future__ import annotations

from pathlib import Path

import pytest

from hpcllm.errors import ConfigError
from hpcllm.ui.theme import contrast, load_starters, load_theme, logo_of, variables
from hpcllm.workspace import reference_root

LOGO = '<svg xmlns="http://www.w3.org/2000/svg"/>'


def write(folder: Path, theme: str) -> Path:
    (folder / "theme.toml").write_text(theme, encoding="utf-8")
    return folder


def test_the_reference_site_has_a_theme_a_logo_and_starters_in_each_language() -> None:
    folder = reference_root() / "ui"
    theme = load_theme(folder)
    logo = logo_of(folder, theme)
    assert logo is not None and logo[1] == "image/svg+xml" and b"<script" not in logo[0]
    assert {starter.language for starter in load_starters(folder)} == {"en", "pt"}


def test_without_files_there_is_a_plain_look(tmp_path: Path) -> None:
    assert logo_of(tmp_path, load_theme(tmp_path)) is None
    assert load_starters(tmp_path) == ()


def test_a_wrong_key_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"acent: unknown key; did you mean 'accent'\?"):
        load_theme(write(tmp_path, 'acent = "#000000"\nlogo = ""'))


def test_colours_that_are_hard_to_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_theme(write(tmp_path, 'accent = "#ffcc00"\naccent_dark = "#222222"\nlogo = ""'))
    light, dark = caught.value.problems
    assert light.startswith("accent: ") and light.endswith("take a darker colour")
    assert dark.startswith("accent_dark: ") and dark.endswith("take a lighter colour")


@pytest.mark.parametrize("logo", ["../secret.svg", "logo.exe", "gone.svg"])
def test_logos_from_elsewhere_or_of_other_kinds_are_refused(tmp_path: Path, logo: str) -> None:
    (tmp_path / "logo.exe").write_text(LOGO)
    with pytest.raises(ConfigError, match="logo: "):
        load_theme(write(tmp_path, f'logo = "{logo}"'))


def test_colours_are_nothing_but_colours(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="accent: String should match pattern"):
        load_theme(write(tmp_path, 'accent = "red;} body{display:none"\nlogo = ""'))
    assert "--hl-accent:#0b6268" in variables(load_theme(tmp_path / "absent"))


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert contrast("#123456", "#123456") == pytest.approx(1)
