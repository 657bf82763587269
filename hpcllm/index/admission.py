"""Which complete generation may serve: the gate before ``current`` is replaced.

Role: ``generation, admit -> in use or held back``. What a build has written is marked as held back
until ``admit`` says yes, so that a kill in between leaves nothing in use that was not asked about.
What ``admit`` asks is not known here: the command line gives it a gate of golden questions.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hpcllm.errors import StoreError
from hpcllm.index.generation import (
    Generation,
    current_name,
    held_inputs,
    held_name,
    prune,
    put_in_use,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Admit = Callable[[str], bool]

logger = logging.getLogger(__name__)

BUILD_LOCK_FILE = "build.lock"

LOCK_TIMEOUT_S = 600.0
"""Longest wait for another build to end."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did.

    Attributes:
        generation: name of the generation in use afterwards.
        unchanged: whether it was in use before and nothing was written.
        documents: pages in it.
        chunks: chunks in it, folded ones included.
        embedded: chunks whose vectors were computed.
        reused: chunks whose vectors were taken over.
        removed: chunks of the generation before that are gone.
        folded: chunks that repeat another one.
        seconds: wall time.
        pruned: names of old generations that were removed.
        held: name of the generation that was built and is held back, which the counts are about;
            empty where what was built is in use.
    """

    generation: str
    unchanged: bool
    documents: int
    chunks: int
    embedded: int
    reused: int
    removed: int
    folded: int
    seconds: float
    pruned: tuple[str, ...] = ()
    held: str = ""


def unchanged_report(before: Generation, start: float) -> BuildReport:
    """Return the report of a build that found ``before`` up to date; ``start`` is its beginning."""
    manifest = before.manifest
    return BuildReport(
        generation=before.name,
        unchanged=True,
        documents=manifest.documents,
        chunks=manifest.chunks,
        embedded=0,
        reused=manifest.chunks,
        removed=0,
        folded=manifest.chunks - manifest.vectors,
        seconds=time.perf_counter() - start,
    )


def offer_held(
    index_dir: Path,
    *,
    inputs: str,
    admit: Admit | None = None,
    keep: int = 2,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
) -> BuildReport | None:
    """Ask again whether the generation that is held back may serve, if it is of the given state.

    Args:
        index_dir: folder of the index.
        inputs: fingerprint of the state wanted.
        admit: as in :func:`build_generation`.
        keep: as in :func:`build_generation`.
        lock_timeout_s: as in :func:`build_generation`.

    Returns:
        What came of it; None where nothing sound of that state is held back.
    """
    start = time.perf_counter()
    name = held_name(index_dir)
    if name is None or held_inputs(index_dir, name) != inputs:
        return None
    with locked(index_dir, lock_timeout_s):
        held = open_held(index_dir)
        if held is None:
            return None
        with held:
            if held_inputs(index_dir, held.name) != inputs:
                return None
            return offer(index_dir, held, admit, keep, start)


def offer(
    index_dir: Path, held: Generation, admit: Admit | None, keep: int, start: float
) -> BuildReport:
    """Put ``held``, an open generation, in use if it is admitted now; for a holder of the lock."""
    report = unchanged_report(held, start)
    if not is_admitted(index_dir, held.name, admit):
        return replace(report, generation=current_name(index_dir) or "", held=held.name)
    return replace(report, unchanged=False, pruned=tuple(prune(index_dir, keep=keep)))


def is_admitted(index_dir: Path, name: str, admit: Admit | None) -> bool:
    """Ask ``admit`` about a complete generation, put it in use where it may serve, say which."""
    if admit is not None and not admit(name):
        logger.info("generation %s is held back: its gate does not hold", name)
        return False
    put_in_use(index_dir, name)
    return True


def open_held(index_dir: Path) -> Generation | None:
    """Open the generation that is held back; None where there is none or it is damaged."""
    name = held_name(index_dir)
    if name is None:
        return None
    try:
        return Generation(index_dir / name)
    except StoreError as exc:
        logger.info("what was held back is of no use: %s", exc)
        return None


@contextmanager
def locked(index_dir: Path, timeout_s: float) -> Iterator[None]:
    """Keep other builds out; :class:`StoreError` where one does not end in time."""
    from filelock import FileLock, Timeout

    lock_path = index_dir / BUILD_LOCK_FILE
    try:
        index_dir.mkdir(parents=True, exist_ok=True)
        with FileLock(lock_path, timeout=timeout_s):
            yield
    except Timeout as exc:
        raise StoreError(
            f"another build has held {lock_path} for {timeout_s:g} s; wait for it to end or stop it"
        ) from exc
    except (PermissionError, NotADirectoryError, FileExistsError) as exc:
        raise StoreError(f"{index_dir} cannot be written: {exc.strerror}; check its owner") from exc
