from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from factories import CONTENT, entry_of, file_table, path_entry

from hpcllm.errors import ModelError
from hpcllm.models.files import STAMP_FILE, local_files, sha256_of

ENTRY = path_entry(Path("/nowhere"))


@pytest.fixture
def placed(tmp_path: Path) -> Path:
    """The entry's file, in place."""
    path = tmp_path / "tiny" / "model.bin"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    return path


def test_sha256_is_that_of_the_standard(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"abc")
    # FIPS 180-2, appendix B.1
    assert sha256_of(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_whole_file_is_found_and_stamped(placed: Path, tmp_path: Path) -> None:
    assert local_files(ENTRY, tmp_path) == {"model.bin": placed}
    stamps = json.loads((placed.parent / STAMP_FILE).read_text())
    assert stamps["model.bin"]["sha256"] == ENTRY.files[0].sha256


def test_a_stamped_file_is_not_read_again(
    placed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_files(ENTRY, tmp_path)
    monkeypatch.setattr("hpcllm.models.files.sha256_of", lambda *_: pytest.fail("read again"))
    assert local_files(ENTRY, tmp_path)


def test_one_changed_byte_is_found(placed: Path, tmp_path: Path) -> None:
    local_files(ENTRY, tmp_path)
    with placed.open("r+b") as stream:
        stream.seek(1234)
        stream.write(bytes([CONTENT[1234] ^ 1]))
    with pytest.raises(ModelError, match=r"model\.bin is damaged: its SHA-256 is .*pull tiny"):
        local_files(ENTRY, tmp_path)


def test_a_change_with_the_old_time_put_back_is_found(placed: Path, tmp_path: Path) -> None:
    local_files(ENTRY, tmp_path)
    times = placed.stat().st_atime_ns, placed.stat().st_mtime_ns
    placed.write_bytes(CONTENT[:-1] + b"\x00")
    os.utime(placed, ns=times)
    with pytest.raises(ModelError, match="damaged"):
        local_files(ENTRY, tmp_path)


def test_verify_reads_even_what_is_stamped(placed: Path, tmp_path: Path) -> None:
    local_files(ENTRY, tmp_path)
    placed.write_bytes(CONTENT[:-1] + b"\x00")
    status = placed.stat()
    stamps = json.loads((placed.parent / STAMP_FILE).read_text())
    stamps["model.bin"].update(modified_ns=status.st_mtime_ns, changed_ns=status.st_ctime_ns)
    (placed.parent / STAMP_FILE).write_text(json.dumps(stamps))
    assert local_files(ENTRY, tmp_path)
    with pytest.raises(ModelError, match="damaged"):
        local_files(ENTRY, tmp_path, verify=True)


def test_a_cut_file_is_found_by_its_length(placed: Path, tmp_path: Path) -> None:
    placed.write_bytes(CONTENT[:100])
    with pytest.raises(ModelError, match=f"it has 100 bytes, expected {len(CONTENT)}"):
        local_files(ENTRY, tmp_path)


def test_an_absent_model_says_how_to_fetch_it(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"not on this machine .*model\.bin.* models pull tiny"):
        local_files(ENTRY, tmp_path)


def test_optional_files_only_on_request(placed: Path, tmp_path: Path) -> None:
    place = [{"kind": "path", "path": "/m"}]
    entry = entry_of(
        file_table("model.bin", CONTENT, places=place),
        file_table("more.bin", b"x", places=place, optional=True),
    )
    assert list(local_files(entry, tmp_path)) == ["model.bin"]
    with pytest.raises(ModelError, match=r"missing in .*: more\.bin.*--file more\.bin"):
        local_files(entry, tmp_path, names=["more.bin"])


@pytest.mark.parametrize("text", ["", "[]", '{"model.bin": 3}', '{"model.bin": {"size": 1}}', "\0"])
def test_a_damaged_stamp_file_only_costs_time(placed: Path, tmp_path: Path, text: str) -> None:
    (placed.parent / STAMP_FILE).write_text(text)
    assert local_files(ENTRY, tmp_path) == {"model.bin": placed}


def test_a_folder_that_cannot_be_written_still_serves(
    placed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    assert local_files(ENTRY, tmp_path) == {"model.bin": placed}
