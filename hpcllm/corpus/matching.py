"""Match POSIX paths against glob patterns with ``**``.

Role: include and exclude lists of sources, and other lists of paths in settings.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def matches_any(path: str, globs: Iterable[str]) -> bool:
    """Say whether ``path`` matches one of ``globs``.

    Args:
        path: POSIX path relative to a root.
        globs: patterns. ``*``, ``?`` and ``[...]`` stay within one folder, ``**`` crosses
            folders. A pattern without a slash is tried on the last part of the path and on each
            folder above it; one that names a folder covers everything inside.

    >>> matches_any("docs/jobs/array.md", ["docs/**/*.md"]), matches_any("a/b.md", ["a/*.rst"])
    (True, False)
    >>> matches_any("docs/drafts/x.md", ["drafts"]), matches_any("docs/drafts/x.md", ["docs/*"])
    (True, True)
    """
    return any(_compiled(glob).match(path) is not None for glob in globs)


@lru_cache(maxsize=2048)
def _compiled(glob: str) -> re.Pattern[str]:
    pattern = glob.strip().removeprefix("./").strip("/")
    anywhere = "" if "/" in pattern else "(?:.*/)?"
    return re.compile(f"{anywhere}{_translated(pattern)}(?:/.*)?\\Z", re.DOTALL)


def _translated(pattern: str) -> str:
    result = ""
    for token in re.findall(r"\*\*/|\*\*|\*|\?|\[[!^]?\]?[^\]/]*\]|.", pattern, re.DOTALL):
        result += _SPECIAL.get(token) or _literal(token)
    return result


_SPECIAL = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _literal(token: str) -> str:
    if len(token) > 2:
        inner = token[1:-1]
        negated = inner[:1] in "!^"
        inner = inner[1:] if negated else inner
        escaped = re.sub(r"([\\\[\]^&~|])", r"\\\1", inner)
        return f"[{'^' if negated else ''}{escaped}]"
    return re.escape(token)
