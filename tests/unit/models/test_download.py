from __future__ import annotations

import errno
import hashlib
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from factories import CONTENT, entry_of, file_table, path_entry

from hpcllm.errors import DownloadError, ModelError
from hpcllm.models import places
from hpcllm.models.catalog import PathPlace
from hpcllm.models.download import pull, readable
from hpcllm.models.files import local_files


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "given" / "model.bin"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_comes_from_a_path(source: Path, models: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    got = pull(path_entry(source), models, progress=lambda *step: seen.append(step))
    assert got == {"model.bin": models / "tiny" / "model.bin"}
    assert got["model.bin"].read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT), "model.bin")
    assert names_in(models / "tiny") == [".lock", ".verified.json", "model.bin"]


def test_a_folder_place_is_searched_for_the_name(source: Path, models: Path) -> None:
    assert pull(path_entry(source.parent), models)


def test_given_places_are_used_instead(source: Path, models: Path) -> None:
    entry = path_entry(Path("/nowhere/model.bin"))
    assert pull(entry, models, places=[PathPlace(kind="path", path=str(source))])


def test_what_is_there_is_not_fetched_again(source: Path, models: Path) -> None:
    entry = path_entry(source)
    pull(entry, models)
    source.unlink()
    assert pull(entry, models)


def test_a_file_copied_by_hand_is_accepted(models: Path) -> None:
    (models / "tiny").mkdir(parents=True)
    (models / "tiny" / "model.bin").write_bytes(CONTENT)
    entry = path_entry(Path("/nowhere"))
    assert pull(entry, models) == local_files(entry, models)


def test_a_damaged_file_is_replaced(
    source: Path, models: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entry = path_entry(source)
    path = pull(entry, models)["model.bin"]
    path.write_bytes(CONTENT[:-1] + b"\x00")
    pull(entry, models)
    assert path.read_bytes() == CONTENT
    assert "damaged and will be replaced" in caplog.text


def test_wrong_content_is_discarded_and_the_next_place_tried(source: Path, models: Path) -> None:
    wrong = source.with_name("wrong.bin")
    wrong.write_bytes(CONTENT[::-1])
    both = [{"kind": "path", "path": str(path)} for path in (wrong, source)]
    entry = entry_of(file_table("model.bin", CONTENT, places=both))
    assert pull(entry, models)["model.bin"].read_bytes() == CONTENT


def test_no_place_lists_every_reason_and_what_to_copy_where(source: Path, models: Path) -> None:
    source.write_bytes(CONTENT[::-1])
    larger = source.with_name("larger.bin")
    larger.write_bytes(CONTENT + b"x")
    paths = [source, larger, Path("/nowhere/model.bin")]
    table = file_table(
        "model.bin", CONTENT, places=[{"kind": "path", "path": str(p)} for p in paths]
    )
    with pytest.raises(DownloadError) as caught:
        pull(entry_of(table), models)
    lines = str(caught.value).splitlines()
    assert lines[0] == "model.bin of tiny could not be fetched from any place:"
    assert lines[1].startswith(f"  - path: {source}: what arrived has SHA-256 ")
    assert lines[1].endswith("and was discarded")
    assert lines[2].endswith("what arrives is larger than the 5120 bytes of model.bin")
    assert lines[3].endswith("/nowhere/model.bin does not exist")
    assert lines[4] == (
        f"To bring it by hand, copy the file (5120 bytes, SHA-256 {table['sha256']}) to "
        f"{models / 'tiny' / 'model.bin'} and run: hpcllm models pull tiny"
    )
    assert names_in(models / "tiny") == [".lock"]


def test_a_failed_pull_keeps_what_was_there(source: Path, models: Path) -> None:
    entry = path_entry(source)
    old = pull(entry, models)["model.bin"]
    newer = path_entry(Path("/nowhere"), CONTENT + b"newer")
    with pytest.raises(DownloadError):
        pull(newer, models)
    assert old.read_bytes() == CONTENT


def test_a_full_disk_is_foreseen(
    source: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=3_000_000))
    with pytest.raises(ModelError, match=r"no room for model\.bin .* 17 MB needed, 3 MB free") as e:
        pull(path_entry(source), models)
    assert "HPCLLM_HOME" in str(e.value)
    assert not isinstance(e.value, DownloadError)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_disk_that_fills_up_is_named_and_leaves_nothing(
    source: Path, models: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    opened = Path.open

    def open_full(self: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if self.name.endswith(".partial"):
            return _Full(code)
        return opened(self, mode, *rest, **more)

    monkeypatch.setattr(Path, "open", open_full)
    with pytest.raises(ModelError, match=r"no room for model\.bin"):
        pull(path_entry(source), models)
    assert names_in(models / "tiny") == [".lock"]


class _Full:
    """A file on a full disk."""

    def __init__(self, code: int) -> None:
        self.code = code

    def __enter__(self) -> _Full:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write(self, _: bytes) -> None:
        raise OSError(self.code, "full")


def test_a_folder_that_cannot_be_made_says_so(source: Path, tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(ModelError, match=r"cannot be made: Not a directory.*HPCLLM_HOME"):
        pull(path_entry(source), blocker / "models")


def test_several_pulls_at_once_fetch_once(
    source: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    real = places.fetch

    def counted(place: Any, job: Any) -> str:
        fetched.append(job.file.name)
        return real(place, job)

    monkeypatch.setattr("hpcllm.models.download.fetch", counted)
    threads = [threading.Thread(target=pull, args=(path_entry(source), models)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fetched == ["model.bin"]
    assert (models / "tiny" / "model.bin").read_bytes() == CONTENT


def test_an_interrupted_pull_leaves_no_partial_file(source: Path, models: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull(path_entry(source), models, progress=interrupt)
    assert names_in(models / "tiny") == [".lock"]


@pytest.mark.parametrize(
    ("size", "text"),
    [(999, "999 bytes"), (491_400_064, "491 MB"), (1_117_320_768, "1.1 GB")],
)
def test_sizes_read_well(size: int, text: str) -> None:
    assert readable(size) == text


class TestDerived:
    """A file that is made from another one."""

    @pytest.fixture(autouse=True)
    def fake_writer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def upper(source: Path, target: Path, type_name: str, *, progress: Any) -> None:
            target.write_bytes(source.read_bytes().upper() + self.suffix)
            progress(1, 1, target.name)

        monkeypatch.setattr("hpcllm.models.gguf.requantise", upper)

    suffix = b""

    def entry(self, source: Path) -> Any:
        place = [{"kind": "path", "path": str(source)}]
        return entry_of(
            file_table("made.bin", b"ABC", derive={"source": "raw.bin", "type": "Q8_0"}),
            file_table("raw.bin", b"abc", role="source", places=place),
        )

    @pytest.fixture
    def raw(self, tmp_path: Path) -> Path:
        path = tmp_path / "raw.bin"
        path.write_bytes(b"abc")
        return path

    def test_is_made_from_its_fetched_source(self, raw: Path, models: Path) -> None:
        got = pull(self.entry(raw), models)
        assert list(got) == ["made.bin"]
        assert got["made.bin"].read_bytes() == b"ABC"

    def test_needs_no_source_once_it_is_there(self, models: Path) -> None:
        (models / "tiny").mkdir(parents=True)
        (models / "tiny" / "made.bin").write_bytes(b"ABC")
        assert pull(self.entry(Path("/nowhere")), models)

    def test_of_another_writer_is_kept_and_still_guarded(
        self, raw: Path, models: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.suffix = b"!"
        entry = self.entry(raw)
        path = pull(entry, models)["made.bin"]
        assert "the libraries of this machine write it differently" in caplog.text
        assert local_files(entry, models, verify=True) == {"made.bin": path}
        path.write_bytes(b"ABX!")
        with pytest.raises(ModelError, match="damaged"):
            local_files(entry, models)

    def test_is_made_anew_when_the_catalog_names_another_hash(
        self, raw: Path, models: Path
    ) -> None:
        self.suffix = b"?"
        old = pull(self.entry(raw), models)["made.bin"]
        assert old.read_bytes() == b"ABC?"
        self.suffix = b""
        newer = self.entry(raw)
        made = newer.file("made.bin")
        named = made.model_copy(update={"sha256": hashlib.sha256(b"ABCD").hexdigest(), "size": 4})
        newer = newer.model_copy(
            update={"files": tuple(named if f is made else f for f in newer.files)}
        )
        self.suffix = b"D"
        with pytest.raises(ModelError, match="another version of the catalog"):
            local_files(newer, models)
        assert pull(newer, models)["made.bin"].read_bytes() == b"ABCD"
        assert local_files(newer, models)
