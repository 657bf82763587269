"""Read files in a process of their own, which ends when one file takes too long.

Role: between ingest and the readers. A hostile or broken file can keep a reader busy for hours, in
Python or inside a library; no time limit within one process stops both. :class:`BoundedReader`
keeps one helper process for all files: the helper sets an alarm before each file that the system
enforces, and where it dies the file is reported and the next one gets a new helper. The same holds
for a library that crashes. The limit is on processor time, so that a busy machine drops no file.

Messages are a line of JSON each; a request is followed by the bytes of the file.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from hpcllm.corpus.readers import RawFile, ReadResult, read, suffix_of
from hpcllm.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from hpcllm.corpus.source_files import FileEntry

logger = logging.getLogger(__name__)

DEFAULT_TIMEOUT_S = 60.0
"""Most processor time of reading one file."""
WAITING_FACTOR = 10
"""Times the limit that a file may take by the clock: for one that waits and never computes."""

SMALL_FILE_BYTES = 4_000
SMALL_SOURCE_BYTES = 64_000
"""Sources without a larger file and of no more bytes are read here: a helper takes longer to
start than they take to read, and their files are too short to be slow."""

PACKED_SUFFIXES = frozenset((".docx", ".pdf"))
"""Formats whose size says nothing of what is inside."""


def is_small(entries: Iterable[FileEntry]) -> bool:
    """Say whether files are so few and small that they need no helper process."""
    total = 0
    for entry in entries:
        total += entry.size
        is_packed = suffix_of(entry.path) in PACKED_SUFFIXES
        if is_packed or entry.size > SMALL_FILE_BYTES or total > SMALL_SOURCE_BYTES:
            return False
    return True


class BoundedReader:
    """Reads files one after another, each within a time limit; not for several threads at once.

    Use it as a context manager, or call :meth:`close`: the helper ends with it.
    """

    def __init__(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Start nothing yet.

        Args:
            timeout_s: most processor time of one file in seconds, above 0.
        """
        self.timeout_s = timeout_s
        self._helper: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None

    def __enter__(self) -> BoundedReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def read(self, raw: RawFile) -> ReadResult:
        """Read one file as :func:`hpcllm.corpus.readers.read` does.

        Raises:
            IngestError: the file cannot be read, took longer than the limit, or ended the helper.
        """
        helper = self._started()
        if helper is None:
            return read(raw)
        try:
            answer = _asked(helper, raw, self.timeout_s)
        except OSError:  # a broken pipe: it died between two files
            answer = None
        if answer is None:
            raise IngestError(self._died(raw.path))
        if "error" in answer:
            raise IngestError(answer["error"])
        return _result(answer)

    def close(self) -> None:
        """End the helper process."""
        helper, self._helper = self._helper, None
        if helper is None:
            return
        helper.kill()
        for stream in (helper.stdin, helper.stdout, self._errors):
            _closed(stream)
        helper.wait()

    def _started(self) -> subprocess.Popen[bytes] | None:
        """Return the helper, a new one where none runs, or None where none can be started."""
        if self._helper is None and sys.executable:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the helper
            try:
                self._helper = _start(self._errors)
            except OSError as exc:
                self._errors.close()
                logger.warning("files are read without a time limit: no helper process (%s)", exc)
        return self._helper

    def _died(self, path: str) -> str:
        """Return why the helper ended, after making place for the next."""
        assert self._helper is not None
        code = self._helper.wait()
        last = _last_line(self._errors)
        self.close()
        if code in (-signal.SIGPROF, -signal.SIGALRM):
            return (
                f"{path}: reading it took longer than {self.timeout_s:g} s; split or repair the "
                "file, exclude it from its source, or raise read_timeout_s under [index] in "
                "hpcllm.toml"
            )
        return (
            f"{path}: the process that read it ended ({_ending(code)}{last}); exclude the file "
            "from its source, or convert it to another format first"
        )


def _start(errors: IO[bytes]) -> subprocess.Popen[bytes]:
    package = Path(__file__).resolve().parent.parent.parent
    return subprocess.Popen(
        [sys.executable, "-m", "hpcllm.corpus.bounded"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        cwd=package,  # ``-m`` looks there first: never in a folder of somebody else
    )


def _asked(helper: subprocess.Popen[bytes], raw: RawFile, timeout_s: float) -> Any:
    """Send a file and return the answer, or None where the helper ended without one."""
    assert helper.stdin is not None
    assert helper.stdout is not None
    request = {
        "path": raw.path,
        "size": len(raw.data),
        "root": str(Path(raw.root).resolve()),
        "options": dict(raw.options),
        "base_url": raw.base_url,
        "timeout_s": timeout_s,
    }
    helper.stdin.write(json.dumps(request, default=str).encode() + b"\n")
    helper.stdin.write(raw.data)
    helper.stdin.flush()
    line = helper.stdout.readline()
    return json.loads(line) if line.endswith(b"\n") else None


def _result(answer: dict[str, Any]) -> ReadResult:
    lists = {key: tuple(answer[key]) for key in ("warnings", "includes")}
    return ReadResult(**{**answer, **lists})


def _last_line(stream: IO[bytes] | None) -> str:
    if stream is None:
        return ""
    stream.seek(0)
    lines = stream.read().decode("utf-8", "replace").split("\n")
    return next((f": {line.strip()}" for line in reversed(lines) if line.strip()), "")


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def _closed(stream: IO[bytes] | None) -> None:
    try:
        if stream is not None:
            stream.close()
    except OSError:  # what was still to be written goes nowhere
        logger.debug("a pipe of the reading process was closed at its other end")


# ---- in the helper process --------------------------------------------------------------------


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until their stream ends."""
    while line := requests.readline():
        request = json.loads(line)
        data = requests.read(request.pop("size"))
        _set_alarms(request.pop("timeout_s"))
        answer = _answer(RawFile(data=data, **{**request, "root": Path(request["root"])}))
        _set_alarms(0)
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def _set_alarms(seconds: float) -> None:
    """Have the system itself end this process, whatever it is busy with; 0 takes that back."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds * WAITING_FACTOR)


def _answer(raw: RawFile) -> dict[str, Any]:
    try:
        result = read(raw)
    except IngestError as exc:
        return {"error": str(exc)}
    return {**asdict(result), "metadata": dict(result.metadata)}


def main() -> None:
    """Serve over standard input and output; what readers print goes to the error stream."""
    for alarm in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(alarm, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this one
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
