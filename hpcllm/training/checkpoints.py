"""Which checkpoint a stopped run can go on from.

Role: a run may be killed while it writes one; a damaged checkpoint is put aside and the one before
it is taken.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

NEEDED = ("trainer_state.json", "adapter_model.safetensors", "optimizer.pt", "scheduler.pt")
"""Files of a checkpoint without which a run cannot go on."""
_NAME = re.compile(r"^checkpoint-(\d+)$")


def newest_sound(folder: Path) -> Path | None:
    """Return the newest checkpoint that is complete, or None.

    Damaged ones are renamed to ``damaged-checkpoint-N``, so that nothing takes them for sound.
    """
    for path in checkpoints_in(folder):
        problem = damage_of_checkpoint(path)
        if not problem:
            logger.info("going on from %s", path)
            return path
        logger.warning("checkpoint %s cannot be used (%s); trying the one before", path, problem)
        with contextlib.suppress(FileNotFoundError):  # another process of this run was quicker
            path.rename(path.with_name(f"damaged-{path.name}"))
    return None


def checkpoints_in(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, newest first."""
    if not folder.is_dir():
        return []
    found = [
        (int(match.group(1)), path)
        for path in folder.iterdir()
        if path.is_dir() and (match := _NAME.match(path.name))
    ]
    return [path for _, path in sorted(found, reverse=True)]


def damage_of_checkpoint(path: Path) -> str:
    """Return what is wrong with a checkpoint, or an empty string."""
    for name in NEEDED:
        file = path / name
        if not file.is_file() or not file.stat().st_size:
            return f"{name} is missing or empty"
    try:
        state = json.loads((path / NEEDED[0]).read_text(encoding="utf-8"))
        if not isinstance(state.get("global_step"), int):
            return f"{NEEDED[0]} names no step"
    except (OSError, ValueError, AttributeError) as exc:
        return f"{NEEDED[0]} cannot be read: {exc}"
    return _damaged_weights(path) or _damaged_archive(path)


def _damaged_weights(path: Path) -> str:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path / NEEDED[1], framework="numpy") as file:
            return "" if list(file.keys()) else f"{NEEDED[1]} holds nothing"
    except (OSError, SafetensorError) as exc:
        return f"{NEEDED[1]} is damaged: {exc}"


def _damaged_archive(path: Path) -> str:
    """Check the zip archives that torch writes: a cut file has lost its directory at the end."""
    import zipfile

    for name in NEEDED[2:]:
        if not zipfile.is_zipfile(path / name):
            return f"{name} is damaged"
    return ""
