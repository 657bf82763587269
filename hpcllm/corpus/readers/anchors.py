"""Anchors that documentation sites make of their headings.

Role: :func:`assign_anchors` writes an anchor on each heading whose address on the site is not
what :func:`hpcllm.corpus.readers.base.anchor_of` gives, so that deep links resolve.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from hpcllm.corpus.readers.base import anchor_of
from hpcllm.corpus.readers.blocks import Block, Heading, plain

if TYPE_CHECKING:
    from collections.abc import Callable


def _ascii(text: str) -> str:
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def _mkdocs(text: str) -> str:
    kept = re.sub(r"[^\w\s-]", "", _ascii(text)).strip().lower()
    return re.sub(r"[-\s]+", "-", kept)


def _github(text: str) -> str:
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text.strip().lower()))


def _kramdown(text: str) -> str:
    kept = re.sub(r"[^a-z0-9 -]", "", re.sub(r"^[^a-zA-Z]+", "", text).lower())
    return kept.replace(" ", "-") or "section"


def _docutils(text: str) -> str:
    kept = re.sub(r"[^a-z0-9]+", "-", _ascii(text.lower()))
    return re.sub(r"^[-0-9]+|-+$", "", kept)


STYLES: dict[str, tuple[Callable[[str], str], str]] = {
    "plain": (anchor_of, "-{}"),
    "mkdocs": (_mkdocs, "_{}"),
    "mdbook": (_github, "-{}"),
    "github": (_github, "-{}"),
    "kramdown": (_kramdown, "-{}"),
    "sphinx": (_docutils, "id{}"),
}
"""Style to its slug function and the form of the suffix that tells equal headings apart."""


def assign_anchors(blocks: list[Block], style: str) -> None:
    """Give headings the anchor that a site of ``style`` gives them, where it is not the usual one.

    Args:
        blocks: top-level blocks of a page in order; headings are changed in place.
        style: a key of :data:`STYLES`; unknown ones count as ``plain``.
    """
    slug, suffix = STYLES.get(style, STYLES["plain"])
    seen: dict[str, int] = {}
    repeated = 0
    for block in blocks:
        if not isinstance(block, Heading):
            continue
        if block.anchor:
            seen.setdefault(block.anchor, 0)
            continue
        text = plain(block.text)
        anchor = slug(text)
        if anchor in seen and suffix.startswith("id"):  # docutils counts over the whole page
            repeated += 1
            anchor = suffix.format(repeated)
        elif anchor in seen:
            seen[anchor] += 1
            anchor += suffix.format(seen[anchor])
        else:
            seen[anchor] = 0
        if anchor != anchor_of(text):
            block.anchor = anchor
