from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hpcllm.corpus.readers import READERS, is_readable, read, suffix_of
from hpcllm.corpus.readers.base import (
    RawFile,
    anchor_of,
    as_text,
    decode_text,
    file_inside,
    page_name,
)
from hpcllm.errors import IngestError

if TYPE_CHECKING:
    from pathlib import Path

PORTUGUESE = "Submissão de tarefas: não há memória suficiente no nó"


@pytest.mark.parametrize(
    "data",
    [
        PORTUGUESE.encode("utf-8"),
        PORTUGUESE.encode("utf-8-sig"),
        PORTUGUESE.encode("utf-16"),
        PORTUGUESE.encode("utf-32"),
        PORTUGUESE.encode("utf-16-le"),
        PORTUGUESE.encode("utf-16-be"),
        PORTUGUESE.encode("latin-1"),
        PORTUGUESE.encode("cp1252"),
    ],
)
def test_text_decodes_whatever_encoding_a_site_uses(data: bytes) -> None:
    assert decode_text(data, "a.md") == PORTUGUESE


def test_text_of_another_alphabet_is_guessed() -> None:
    russian = "Подключение к кластеру по протоколу ssh из домашней сети"
    assert decode_text(russian.encode("cp1251"), "a.md") == russian


def test_one_broken_byte_does_not_change_the_other_letters() -> None:
    data = "memória, não, fila, submissão".encode() + b"\xff"
    assert decode_text(data, "a.md") == "memória, não, fila, submissão\ufffd"


def test_line_ends_become_line_feeds() -> None:
    assert decode_text(b"a\r\nb\rc\n", "a.md") == "a\nb\nc\n"


def test_binary_data_is_refused_with_the_remedy() -> None:
    with pytest.raises(IngestError, match=r"x\.md looks like a binary file \(NUL.*exclude it"):
        decode_text(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "x.md")


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Memory & the `--mem` option", "memory-the-mem-option"),
        ("Submissão de trabalhos", "submissao-de-trabalhos"),
        ("  GPU - jobs_2 ", "gpu-jobs_2"),
        ("作业 调度", "作业-调度"),
    ],
)
def test_anchor_of(heading: str, anchor: str) -> None:
    assert anchor_of(heading) == anchor


def test_file_inside_never_leaves_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "in.md").write_text("in")
    (tmp_path / "out.md").write_text("out")
    (root / "link.md").symlink_to(tmp_path / "out.md")
    (root / "loop.md").symlink_to(root / "loop.md")
    assert file_inside(root, "in.md") == (root / "in.md").resolve()
    for name in ("../out.md", "link.md", "loop.md", "absent.md", "a\0b", ""):
        assert file_inside(root, name) is None


def test_as_text_flattens_front_matter_values() -> None:
    value = {"licence": ["MIT", "GPL"], "free": True, "none": None}
    assert as_text(value) == "licence: MIT, GPL; free: yes; none"


@pytest.mark.parametrize(
    ("path", "name"),
    [("a/gpu-jobs.md", "Gpu jobs"), ("Batch_Computing/index.md", "Batch Computing"), ("x.md", "X")],
)
def test_page_name(path: str, name: str) -> None:
    assert page_name(path) == name


def test_suffixes_are_found_in_any_case() -> None:
    assert suffix_of("docs/A.MD") == ".md"
    assert suffix_of("man/sbatch.1") == ".1"
    assert suffix_of(".md") == ""
    assert is_readable("a.RST")
    assert not is_readable("Makefile")


def test_every_reader_in_the_table_has_the_form_module_function() -> None:
    assert all(target.count(":") == 1 for target in READERS.values())


def test_an_unknown_suffix_names_the_nearest_and_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(
        IngestError, match=r"'\.mdd'; did you mean '\.mdx?'\?; known: \.md .*exclude"
    ):
        read(RawFile("a.mdd", b"", tmp_path))


def test_a_library_failure_becomes_one_error_with_path_and_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(READERS, ".rst", "hpcllm.errors:nearest")  # a function that fails on it
    with pytest.raises(IngestError, match=r"a\.rst: cannot be read as \.rst \(TypeError.*exclude"):
        read(RawFile("a.rst", b"", tmp_path))
