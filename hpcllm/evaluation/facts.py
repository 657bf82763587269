"""Whether a text holds a fact: the comparison that questions and metrics share.

Compared without regard to case, white space, backticks and asterisks; a fact of one word must
stand as a whole token, so that ``56`` is not found in ``256`` nor ``10`` in ``0.10``.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@functools.lru_cache(maxsize=4096)
def normalise(text: str) -> str:
    """Return ``text`` in lower case with runs of space, backtick and asterisk as one space."""
    return re.sub(r"[\s`*]+", " ", text.lower()).strip()


def holds_fact(text: str, fact: str, alternatives: Iterable[str] = ()) -> bool:
    """Say whether ``text`` holds ``fact`` or one of its accepted spellings as whole tokens."""
    plain = normalise(text)
    return any(_holds(plain, normalise(form)) for form in (fact, *alternatives))


def _holds(text: str, fact: str) -> bool:
    if not fact:
        return False
    before = r"(?<![\w.])" if re.match(r"\w", fact) else ""
    after = r"(?!\w)" if re.search(r"\w$", fact) else ""
    return re.search(before + re.escape(fact) + after, text) is not None
