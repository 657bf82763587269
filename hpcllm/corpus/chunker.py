"""Cut a document into chunks along its heading tree.

Role: ``Document -> list[Chunk]``. Knows nothing of files, formats or vectors.

How it cuts, in this order of importance:

1. Nothing is lost and nothing stands in two chunks, except what names a piece: a table's header
   row, an entry's term and a fence's opening line are repeated on every piece of it.
2. Code, table rows and entries stay whole. A sentence that introduces a block stays with it.
3. A chunk begins at a heading or an entry wherever the text before is long enough to stand alone.
4. Chunks come close to ``target`` tokens and exceed ``limit`` only for one indivisible block.

Over-long blocks are cut in :mod:`hpcllm.corpus.splitting`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hpcllm.corpus.blocks import Block, parse_blocks
from hpcllm.corpus.readers.base import anchor_of
from hpcllm.corpus.splitting import FENCE_STRETCH, Piece, split_block
from hpcllm.records import Chunk, stable_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from hpcllm.records import Document

    CountTokens = Callable[[str], int]

DEFAULT_TARGET = 180
"""Aimed-at tokens of a chunk."""
DEFAULT_LIMIT = 240
"""Most tokens of a chunk that is not one indivisible block."""
STANDALONE = 60
"""Tokens from which a section is a chunk of its own and is not joined with the next."""
ENTRY_STANDALONE = 40
"""Tokens from which an option entry is a chunk of its own."""
LEAD_TOKENS = 60
"""Longest paragraph that is kept with the fence, table or list after it."""
LABEL = re.compile(r"\*\*[^*]+\*\*:?|[^.!?]*:\*\*")
"""A bold line alone, such as ``**Warning:**``: it names what stands below it."""
LINK = re.compile(r"!?\[([^\[\]]*)\]\((?:<[^<>]*>|[^()\s]*)\)")


@dataclass
class _Draft:
    """A chunk being filled; ``first`` is the section it begins in."""

    headings: tuple[str, ...]
    anchor: str
    pieces: list[Piece] = field(default_factory=list)
    tokens: int = 0

    def text(self) -> str:
        parts: list[str] = []
        for index, piece in enumerate(self.pieces):
            if index == 0:
                parts.append(piece.prefix)
            else:
                parts.append(piece.joint)
            parts.append(piece.body)
        parts.append(self.pieces[-1].suffix)
        return "".join(parts)


def chunk_document(
    document: Document,
    *,
    count_tokens: CountTokens,
    target: int = DEFAULT_TARGET,
    limit: int = DEFAULT_LIMIT,
) -> list[Chunk]:
    """Cut ``document`` into chunks in reading order.

    Args:
        document: a document in the canonical dialect.
        count_tokens: length of a text in tokens of the embedder.
        target: aimed-at tokens of a chunk, below ``limit``.
        limit: most tokens of a chunk, single indivisible blocks excepted.

    Returns:
        Chunks with positions from 0; empty for a document without text. Ids are unique within
        the document and do not depend on position, except that the second and later of several
        identical pieces in one section are numbered.

    Raises:
        ValueError: ``target`` is not between 1 and ``limit``.
    """
    if not 1 <= target <= limit:
        raise ValueError(f"target must be between 1 and limit={limit}, got {target}")
    drafts = _Packer(document, count_tokens, target, limit).run()
    return _finish(document, drafts, count_tokens)


def _finish(document: Document, drafts: list[_Draft], count_tokens: CountTokens) -> list[Chunk]:
    keywords = " ".join(
        document.metadata[key]
        for key in ("description", "tags", "aliases")
        if key in document.metadata
    )
    seen: dict[str, int] = {}
    chunks = []
    for position, draft in enumerate(drafts):
        text = draft.text()
        identity = stable_id(document.source, document.path, draft.headings, text)
        seen[identity] = number = seen.get(identity, 0) + 1
        if number > 1:
            identity = stable_id(
                document.source, document.path, (*draft.headings, f"#{number}"), text
            )
        chunks.append(
            Chunk(
                id=identity,
                source=document.source,
                path=document.path,
                title=document.title,
                headings=draft.headings,
                anchor=draft.anchor,
                text=text,
                position=position,
                tokens=count_tokens(text),
                line=draft.pieces[0].block.line,
                url=_with_anchor(document.url, draft.anchor),
                language=document.language,
                cluster=document.cluster,
                status=document.status,
                notice=document.notice,
                keywords=keywords if position == 0 else "",
            )
        )
    return chunks


def _with_anchor(url: str | None, anchor: str) -> str | None:
    return f"{url}#{anchor}" if url and anchor else url


class _Packer:
    """Fill drafts with pieces, section by section."""

    def __init__(
        self, document: Document, count_tokens: CountTokens, target: int, limit: int
    ) -> None:
        self.count = count_tokens
        self.target = target
        self.limit = limit
        self.blocks = parse_blocks(document.text)
        self.path: list[tuple[int, str]] = []
        self.anchor = ""
        self.anchors: dict[str, int] = {}
        self.draft: _Draft | None = None
        self.drafts: list[_Draft] = []

    def run(self) -> list[_Draft]:
        pending: list[Piece] = []
        for index, block in enumerate(self.blocks):
            if block.kind == "heading":
                pending = self._enter(block, pending)
                continue
            if block.kind == "item":
                self._entry(block, pending)
                pending = []
                continue
            pieces = [*pending, *split_block(block, self.count, self.limit)]
            pending = []
            following = self.blocks[index + 1] if index + 1 < len(self.blocks) else None
            if self._leads(block, pieces, following):
                pending = pieces
                continue
            self._add(pieces)
        if pending:
            self._add(pending)
        self._close()
        return self.drafts

    def _leads(self, block: Block, pieces: list[Piece], following: Block | None) -> bool:
        """Tell whether a paragraph must stay with the block after it."""
        if block.kind != "text" or following is None or following.kind == "heading":
            return False
        last = block.lines[-1].rstrip(" *_")
        is_line = len(block.lines) == 1
        is_caption = is_line and following.kind == "table" and not last.endswith((".", "!", "?"))
        is_lead = following.kind == "fence" or (
            following.kind in ("table", "list") and (last.endswith(":") or is_caption)
        )
        is_label = is_line and LABEL.fullmatch(block.lines[0].strip()) is not None
        is_short = sum(self.count(piece.body) for piece in pieces) <= LEAD_TOKENS
        return (is_lead or is_label) and is_short

    def _enter(self, block: Block, pending: list[Piece]) -> list[Piece]:
        """Start the section of a heading; its line waits for the first block of the section."""
        if pending and any(piece.block.kind != "heading" for piece in pending):
            self._add(pending)
            pending = []
        rises = bool(self.path) and block.level < self.path[-1][0]
        enough = self.draft is not None and self.draft.tokens >= STANDALONE
        if enough or (rises and self.draft is not None and self.draft.tokens >= STANDALONE // 2):
            self._close()
        while self.path and self.path[-1][0] >= block.level:
            self.path.pop()
        label = LINK.sub(r"\1", block.label)
        self.path.append((block.level, label))
        self.anchor = block.anchor or self._new_anchor(label)
        return [*pending, Piece(block.text, block)]

    def _new_anchor(self, label: str) -> str:
        base = anchor_of(label)
        count = self.anchors[base] = self.anchors.get(base, -1) + 1
        return f"{base}-{count}" if count else base

    def _entry(self, block: Block, pending: list[Piece]) -> None:
        pieces = [*pending, *split_block(block, self.count, self.limit)]
        size = sum(self.count(piece.body) for piece in pieces)
        if size < ENTRY_STANDALONE:
            self._add(pieces)
            if self.draft is not None and self.draft.tokens >= ENTRY_STANDALONE * 2:
                self._close()
            return
        if self.draft and self.draft.tokens >= ENTRY_STANDALONE:
            self._close()
        self._add(pieces, entry=(_plain(block.label), block.anchor or self.anchor))
        self._close()

    def _add(self, pieces: list[Piece], entry: tuple[str, str] | None = None) -> None:
        """Put pieces into the open draft, or close it and begin another."""
        sizes = [self.count(piece.body) for piece in pieces]
        total = sum(sizes)
        fits = self.draft is not None and self.draft.tokens + total <= self.target
        if self.draft is not None and not fits and self.draft.tokens >= STANDALONE // 2:
            self._close()
        whole = total <= self.limit
        for piece, size in zip(pieces, sizes, strict=True):
            open_tokens = self.draft.tokens if self.draft else 0
            if not whole and open_tokens and self._must_break(piece, open_tokens, size):
                self._close()
            if self.draft is None:
                self.draft = self._new_draft(piece, entry)
            self.draft.pieces.append(piece)
            self.draft.tokens += size

    def _must_break(self, piece: Piece, open_tokens: int, size: int) -> bool:
        """Tell whether a piece of an over-long run begins a new draft."""
        assert self.draft is not None
        last = self.draft.pieces[-1].block
        is_lead = last.kind == "heading" or (last is not piece.block and open_tokens <= LEAD_TOKENS)
        bound = self.limit if is_lead else self.target
        if is_lead and size <= self.limit * FENCE_STRETCH:
            return False
        return open_tokens + size > bound

    def _new_draft(self, piece: Piece, entry: tuple[str, str] | None) -> _Draft:
        headings = tuple(label for _, label in self.path)
        if entry is None:
            return _Draft(headings, self.anchor)
        label, anchor = piece.block.nested.get(piece.body.split("\n", 1)[0].strip(), ("", ""))
        inner = (_plain(label),) if label else ()
        return _Draft((*headings, entry[0], *inner), anchor or entry[1])

    def _close(self) -> None:
        if self.draft is not None and self.draft.pieces:
            self.drafts.append(self.draft)
        self.draft = None


def _plain(label: str) -> str:
    """Return a label without link targets and the marks of emphasis and code around its words."""
    label = LINK.sub(r"\1", label)
    label = re.sub(r"(\*\*|__|`)(.+?)\1", r"\2", label)
    label = re.sub(r"(?<![\w*])\*(\w[^*]*)\*(?![\w*])", r"\1", label)
    return re.sub(r"\\([^\w\s])", r"\1", label).strip()
