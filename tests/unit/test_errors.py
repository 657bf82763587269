"""One tree of errors, and optional packages that name their extra."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hpcllm import errors
from hpcllm.errors import HpcLlmError, MissingExtraError, import_extra, nearest


def test_every_error_stands_in_one_tree_and_in_its_drawing() -> None:
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, Exception)]
    assert all(issubclass(c, HpcLlmError) for c in classes)
    assert all(c.__name__ in (errors.__doc__ or "") for c in classes)


def test_a_missing_extra_is_named() -> None:
    with pytest.raises(MissingExtraError, match=r"no_such_module.*pip install 'hpcllm\[web\]'"):
        import_extra("no_such_module", "web")


def test_a_broken_install_is_not_taken_for_a_missing_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_thing.py").write_text("import another_missing_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="another_missing_module"):
        import_extra("broken_thing", "web")
    sys.modules.pop("broken_thing", None)


def test_nearest_suggests_only_what_is_close() -> None:
    assert nearest("thread", ["threads", "id"]) == "; did you mean 'threads'?"
    assert nearest("zzz", ["threads", "id"]) == ""
