"""Turn a fragment of HTML into canonical Markdown, for readers of formats that embed HTML."""

from __future__ import annotations

from hpcllm.corpus.readers.blocks import render
from hpcllm.corpus.readers.html_page import blocks_of


def html_to_markdown(fragment: str) -> str:
    """Return the canonical Markdown of an HTML fragment; empty where it holds no text."""
    blocks, _ = blocks_of(fragment)
    return render(blocks)
