"""Inline markup of reStructuredText, parsed in time that grows with the text and not its square.

Role: docutils' own parser of inline markup, but for one thing: where the end of some markup has
been looked for in vain, it is not looked for again in the rest of the same paragraph. Without
that, a file of start marks (``*a *a *a``) is read in minutes.
"""

from __future__ import annotations

from typing import Any

from docutils.parsers.rst.states import Inliner

_ENDED_MARKUP = (
    "emphasis", "strong", "interpreted_or_phrase_ref", "literal", "target", "substitution_ref",
)  # fmt: skip


class EndPattern:
    """A compiled pattern that searches no more once it has found nothing.

    A later search is in a later part of the same text, where it could at most find an end at the
    very first character, and docutils takes that for none.
    """

    def __init__(self, pattern: Any) -> None:
        self.pattern = pattern
        self.is_gone = False

    def search(self, text: str) -> Any:
        """Return the match in ``text``, or None."""
        found = None if self.is_gone else self.pattern.search(text)
        self.is_gone = found is None
        return found


class LinearInliner(Inliner):
    """docutils' inline parser with patterns that give up."""

    def init_customizations(self, settings: Any) -> None:
        """Make the patterns of one document, then wrap those of ends."""
        super().init_customizations(settings)
        self.ends = [EndPattern(getattr(self.patterns, name)) for name in _ENDED_MARKUP]
        for name, pattern in zip(_ENDED_MARKUP, self.ends, strict=True):
            setattr(self.patterns, name, pattern)

    def parse(self, text: str, lineno: int, memo: Any, parent: Any) -> Any:
        """Parse one text; a text within it (an argument, a title) is searched afresh."""
        kept = [pattern.is_gone for pattern in self.ends]
        for pattern in self.ends:
            pattern.is_gone = False
        try:
            return super().parse(text, lineno, memo, parent)
        finally:
            for pattern, is_gone in zip(self.ends, kept, strict=True):
                pattern.is_gone = is_gone


for _name, _value in vars(Inliner).items():  # docutils looks for its texts in the class itself
    if isinstance(_value, str) and not _name.startswith("__"):
        setattr(LinearInliner, _name, _value)
