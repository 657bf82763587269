"""Bring the files of a git repository onto this machine with the ``git`` program.

Role: the git part of :mod:`hpcllm.corpus.sources`. Nothing of the repository is executed: no
hooks, no submodules, no filters, no prompts; argument vectors only.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hpcllm.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger(__name__)

SCHEMES = ("https", "ssh", "file")
"""URL schemes that a repository may be fetched over."""
FETCH_TIMEOUT_S = 600.0
"""Seconds that fetching a repository may take."""
QUICK_TIMEOUT_S = 60.0
"""Seconds that a command without network may take."""
SAFE_REF = re.compile(r"[A-Za-z0-9][\w./+-]*")
"""Branches, tags and commits; never an option."""
SAFETY = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false",
    "-c", "protocol.ext.allow=never", "-c", "safe.directory=*", "-c", "gc.auto=0",
    "-c", "filter.lfs.smudge=", "-c", "filter.lfs.required=false",
)  # fmt: skip
ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "LC_ALL": "C",
}


def check_url(url: str) -> str:
    """Return ``url`` if its scheme is allowed.

    Raises:
        ValueError: another scheme, or none.
    """
    scheme, separator, rest = url.partition("://")
    if separator and scheme in SCHEMES and rest and not rest.startswith("-"):
        return url
    raise ValueError(
        f"expected an address that starts with {', '.join(f'{s}://' for s in SCHEMES)} "
        "(write git@host:path as ssh://git@host/path)"
    )


def fetch(url: str, ref: str | None, cache_dir: Path) -> Path:
    """Return a checkout of ``ref`` of a repository, fetched without history.

    Args:
        url: address, checked by :func:`check_url`.
        ref: branch, tag or commit; None takes the default branch.
        cache_dir: folder for checkouts; an earlier one is brought up to date.

    Raises:
        IngestError: git is missing, or the repository or ref cannot be had and no earlier
            checkout exists.
    """
    digest = hashlib.sha256(f"{url}\0{ref}".encode()).hexdigest()[:12]
    target = cache_dir / "git" / f"{_slug(url)}-{digest}"
    if (target / ".git").is_dir():
        _update(target, ref)
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as folder:
        fresh = Path(folder) / "checkout"
        fresh.mkdir()
        _git(fresh, ["init", "-q"])
        _git(fresh, ["remote", "add", "--", "origin", url])
        _checkout(fresh, ref)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(fresh, target)
    return target


def revision_of(folder: Path) -> str:
    """Return the commit that a folder of a checkout stands at, or an empty string.

    Raises:
        IngestError: ``git`` is not installed.
    """
    try:
        return _git(folder, ["rev-parse", "--verify", "HEAD"]).strip()
    except IngestError:
        if shutil.which("git") is None:
            raise
        return ""


def top_of(folder: Path) -> Path | None:
    """Return the root of the checkout that ``folder`` lies in, or None outside of one."""
    try:
        return Path(_git(folder, ["rev-parse", "--show-toplevel"]).strip())
    except IngestError:
        return None


def _slug(url: str) -> str:
    name = url.rstrip("/").removesuffix(".git").rpartition("/")[2]
    return re.sub(r"[^\w.-]+", "-", name)[:40] or "repository"


def _update(target: Path, ref: str | None) -> None:
    try:
        _checkout(target, ref)
    except IngestError as exc:
        logger.warning("%s; going on with the checkout of %s", exc, revision_of(target)[:12])


def _checkout(folder: Path, ref: str | None) -> None:
    fetch_ref = ["fetch", "-q", "--depth", "1", "--no-tags", "--no-recurse-submodules"]
    _git(folder, [*fetch_ref, "origin", ref or "HEAD"], FETCH_TIMEOUT_S)
    _git(folder, ["checkout", "-q", "--force", "--detach", "FETCH_HEAD"], FETCH_TIMEOUT_S)
    _git(folder, ["clean", "-q", "-fdx"])


def _git(folder: Path, arguments: Sequence[str], timeout_s: float = QUICK_TIMEOUT_S) -> str:
    command = ["git", *SAFETY, "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **ENVIRONMENT},
        )
    except FileNotFoundError as exc:
        raise IngestError(
            "git is needed for sources of kind 'git' and not installed: install the package git"
        ) from exc
    except subprocess.TimeoutExpired as exc:
        raise IngestError(
            f"git {arguments[0]} took longer than {timeout_s:g} s: check the connection, "
            "or use a checkout that you update yourself (path = ...)"
        ) from exc
    if done.returncode:
        reason = redacted(done.stderr.decode(errors="replace").strip())[-400:]
        raise IngestError(f"git {arguments[0]} failed (exit {done.returncode}): {reason}")
    return done.stdout.decode(errors="replace")


def redacted(text: str) -> str:
    """Return ``text`` with the user name and password of addresses taken out.

    >>> redacted("fatal: https://me:secret@host/x not found")
    'fatal: https://***@host/x not found'
    """
    return re.sub(r"(?<=://)[^/\s@]+@", "***@", text)
