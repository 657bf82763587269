from __future__ import annotations

from pathlib import Path

import pytest

from hpcllm.errors import ConfigError
from hpcllm.evaluation.going_live import set_model


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[model]\nid = "new"\n'),
        ('[site]\nname = "x"\n', '[site]\nname = "x"\n\n[model]\nid = "new"\n'),
        (
            '# kept\n[model]  # too\nthreads = 2\nid = "old"  # and this\n\n[index]\nid = 1\n',
            '# kept\n[model]  # too\nthreads = 2\nid = "new"  # and this\n\n[index]\nid = 1\n',
        ),
        ("[model]\nthreads = 2\n", '[model]\nid = "new"\nthreads = 2\n'),
        ("[model]\nid = 'old'\n", '[model]\nid = "new"\n'),
    ],
)
def test_one_value_changes_and_the_rest_stays(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "hpcllm.toml"
    path.write_text(before)
    set_model(path, "new")
    assert path.read_text() == after
    assert [entry.name for entry in tmp_path.iterdir()] == ["hpcllm.toml"]


def test_a_missing_file_is_made(tmp_path: Path) -> None:
    set_model(tmp_path / "hpcllm.toml", "new")
    assert (tmp_path / "hpcllm.toml").read_text() == '[model]\nid = "new"\n'


@pytest.mark.parametrize(
    "text",
    ['model.id = "old"\n', 'model = { id = "old" }\n', '[site]\nname = """\n[model]\n"""\n', "[["],
)
def test_what_cannot_be_changed_safely_is_left_and_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "hpcllm.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r'set it by hand: id = "new" under \[model\]'):
        set_model(path, "new")
    assert path.read_text() == text
