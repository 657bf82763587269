"""What the ``conf.py`` of a Sphinx site says in plain values.

Role: reads assignments of literals from the file's syntax tree. Nothing of the file is run.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hpcllm.corpus.readers.base import decode_text, file_inside
from hpcllm.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PLACES = ("conf.py", "source/conf.py", "docs/conf.py", "docs/source/conf.py", "doc/conf.py")
"""Where the file stands, relative to a source's root; the first found counts."""

NAMES = frozenset({"myst_substitutions", "release", "rst_epilog", "rst_prolog", "version"})
"""Settings that change what the pages say."""

MAX_BYTES = 1_000_000


def sphinx_settings(root: Path) -> Mapping[str, Any]:
    """Return the settings of :data:`NAMES` that are literals; empty where there is no file.

    Args:
        root: the source's root.
    """
    for name in PLACES:
        found = file_inside(root, name)
        if found is not None:
            status = found.stat()
            if status.st_size <= MAX_BYTES:
                return _parsed(found, status.st_mtime_ns, status.st_size)
    return {}


@lru_cache(maxsize=64)
def _parsed(path: Path, modified_ns: int, size: int) -> Mapping[str, Any]:
    """Parse the file once for each of its versions."""
    try:
        tree = ast.parse(decode_text(path.read_bytes(), path.name))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError, IngestError):
        return {}  # a file for another Python, or for none: the site is read without it
    values: dict[str, Any] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Name) and target.id in NAMES:
                values |= _literal(target.id, statement.value)
    return values


def _literal(name: str, value: ast.expr) -> dict[str, Any]:
    try:
        return {name: ast.literal_eval(value)}
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return {}  # computed when the site is built
