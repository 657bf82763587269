"""How far a page is to be trusted, from where it lies.

Role: what ingest asks besides the page itself (:mod:`hpcllm.corpus.stale`): settings of the source,
names of folders, and folders of predecessors that are out of service.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from hpcllm.corpus.matching import matches_any
from hpcllm.corpus.readers.base import word_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hpcllm.records import Status

STATUS_FOLDERS: dict[str, Status] = {
    "decommissioned": "decommissioned",
    "retired": "decommissioned",
    "archive": "outdated",
    "archived": "outdated",
    "deprecated": "outdated",
    "obsolete": "outdated",
}
"""Folder names that say of themselves that their pages no longer hold."""

GENERAL_FOLDERS = word_set(
    "software apps applications docs doc img images assets static files storage data hardware hpc"
    " general faq faqs news tutorials guides policies policy parallel development libs libraries"
    " jobs scheduler cluster clusters services support access accounts training en pt src pages"
    " imports includes templates"
)
"""Folders that are no system: what lies below ``decommissioned/software`` retires no other page."""

NOTICES: dict[Status, str] = {
    "decommissioned": "This page describes a system that is no longer in service.",
    "outdated": "This page is marked as out of date.",
}
"""Warnings that go with a citation where the page itself gives none."""


def status_by_place(path: str, patterns: Mapping[Status, list[str]], said: Status) -> Status:
    """Take the status from the source's settings, else from the page, else from its folder.

    Args:
        path: the page.
        patterns: globs by status, ``options.status_paths`` of the source.
        said: status that the page itself states.
    """
    for status, globs in patterns.items():
        if matches_any(path, globs):
            return status
    if said != "current":
        return said
    folders = PurePosixPath(path.lower()).parts[:-1]
    return next((STATUS_FOLDERS[name] for name in folders if name in STATUS_FOLDERS), "current")


def retired_systems(paths: Iterable[str]) -> dict[str, str]:
    """Return the systems that have a folder of their own below one such as ``decommissioned``.

    Args:
        paths: all pages of a source.

    Returns:
        Lower-case name of the system's folder -> its name as written.

    >>> retired_systems(["decommissioned/sharc/gpu.rst", "decommissioned/index.rst"])
    {'sharc': 'sharc'}
    """
    found: dict[str, str] = {}
    for path in paths:
        folders = PurePosixPath(path).parts[:-1]
        for folder, system in pairwise(folders):
            is_retired = STATUS_FOLDERS.get(folder.lower()) == "decommissioned"
            if is_retired and system.lower() not in GENERAL_FOLDERS:
                found[system.lower()] = system
    return found


def retired_system_of(path: str, systems: Mapping[str, str]) -> str:
    """Return the retired system whose other folder a page lies in, or an empty string."""
    folders = [folder.lower() for folder in PurePosixPath(path).parts[:-1]]
    return next((systems[name] for name in folders if name in systems), "")
