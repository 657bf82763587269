"""Measure how much of the visible text of documentation stands in some chunk.

usage: python -m tests.bench.coverage FOLDER [FOLDER ...] [--worst N] [--least SHARE]

For every file the words that a reader of the published page sees are taken from the source with
plain rules that share nothing with the readers: markup, templates, options of directives and code
comments of the format are cut by patterns. A word counts as found as often as it stands in the
file's chunks; the share is over occurrences, so that a lost paragraph shows even where its words
stand elsewhere. Chunks are checked too: no fence is torn, no row of a table stands without header.

The rules see a little more than a reader does (labels of cross references, names of icons), so that
the share is a lower bound. Fragments that other pages include are measured in the pages.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hpcllm.corpus.blocks import DELIMITER_ROW, fence_end, opens_fence
from hpcllm.corpus.ingest import Corpus, ReadSettings, open_sources, read_corpus
from hpcllm.corpus.readers import suffix_of
from hpcllm.corpus.readers.base import decode_text, word_set
from hpcllm.corpus.sources import FolderSource

WORD = re.compile(r"[^\W_]+")
FENCE = re.compile(r"(?ms)(^[ \t>]*(?:```|~~~).*?^[ \t>]*(?:```|~~~)[`~]*[ \t]*$)")
FENCE_OR_COMMENT = re.compile(f"{FENCE.pattern}|<!--.*?-->")
ROW = re.compile(r"^\s*\|.*\|\s*$")


@dataclass
class FileResult:
    """What became of one file.

    Attributes:
        path: the file.
        words: words that a reader of the page sees.
        found: of these, found in chunks.
        lost: the others, with how often.
    """

    path: str
    words: int
    found: int
    lost: Counter[str]

    @property
    def share(self) -> float:
        """Share of words found, 1 for a file without words."""
        return self.found / self.words if self.words else 1.0


@dataclass
class FolderResult:
    """What became of one folder."""

    name: str
    files: list[FileResult] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Share over all words of all files."""
        words = sum(file.words for file in self.files)
        return sum(file.found for file in self.files) / words if words else 1.0


def words_of(text: str) -> Counter[str]:
    """Return the words of a text in one form, with how often they occur."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return Counter(word for word in WORD.findall(plain) if len(word) > 1)


# --- what a reader sees of each format ---------------------------------------------------------


def seen_html(text: str) -> str:
    text = re.sub(r"(?s)<!--.*?-->", " ", text)
    text = re.sub(r"(?is)<(script|style|head|nav|template|noscript|svg)\b.*?</\1\s*>", " ", text)
    text = re.sub(r"(?i)</?(?:p|div|li|td|th|tr|h\d|br|dt|dd|pre|table|ul|ol|section)\b[^>]*>",
                  " ", text)  # fmt: skip
    return html.unescape(re.sub(r"<[a-zA-Z/!?][^>]*>", "", text))


def seen_markdown(text: str) -> str:
    text = re.sub(r"(?s)\A---\n.*?\n(?:---|\.\.\.)\n", "\n", text)
    # Whichever begins first holds the other: a comment may hold fences, a fence may show a comment.
    text = FENCE_OR_COMMENT.sub(lambda match: match.group(1) or " ", text)
    parts = FENCE.split(text)
    return "\n".join(_fence(part) if i % 2 else _prose(part) for i, part in enumerate(parts))


def _fence(text: str) -> str:
    """Return what is seen of a fence: all but variables that a Jekyll site fills in."""
    return re.sub(r"\{%.*?%\}|\{\{\s*(?:site|page)\..*?\}\}", " ", text.partition("\n")[2])


def _prose(text: str) -> str:
    text = re.sub(r"(?s)<!--.*?-->|\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", " ", text)
    text = re.sub(r"(?m)^\s*\[[^\]]+\]:\s*\S+.*$|^\s*-+8<-+.*$|^\s*\*\[[^\]]+\]:.*$", " ", text)
    text = re.sub(r"(?m)^(\s*)(?:!!!|\?\?\?\+?|===\+?)\s*[\w +-]*?(?:\"(.*)\")?\s*$", r"\1\2", text)
    text = re.sub(r"(?m)^(\s*>\s*)\[!\w+\]", r"\1", text)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)(?:\{[^}]*\})?", " ", text)
    text = re.sub(r"\]\((?:<[^>]*>|[^()\s]*(?:\([^()]*\)[^()\s]*)*)(?:\s+[\"'][^)]*)?\)", "]", text)
    text = re.sub(r"\]\[[^\]]*\]", "]", text)
    text = re.sub(r"(?<!`)\{[:.#][^}\n]*\}|:[a-z]+-[\w-]+:|:[a-z_]+:(?!\w)", " ", text)
    return re.sub(r"[*`~]+", "", seen_html(text))


def seen_rst(text: str) -> str:
    lines = text.split("\n")
    kept: list[str] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        indent = len(line) - len(line.lstrip())
        directive = re.match(r"\s*\.\. (?:\|[^|]+\| )?([\w:+-]+)::\s*(.*)$", line)
        if directive:
            index, shown = _directive(lines, index, indent, *directive.groups())
            kept.append(shown)
        elif re.match(r"\s*\.\.(?:\s|$)", line):
            index = _end_of(lines, index, indent)
        else:
            kept.append(line)
            index += 1
    text = "\n".join(kept)
    text = re.sub(r":[\w:+-]+:`(?:([^`<]*?)\s*<[^`>]*>|([^`]*))`", r"\1\2", text)
    text = re.sub(r"`([^`<]*?)\s*<[^`>]*>`_{0,2}", r"\1", text)
    text = re.sub(r"(?m)^\s*:[\w -]+:\s*$|\|[\w -]+\|_{0,2}", " ", text)
    return re.sub(r"[*`]+|\\(?=\S)", "", text)


HIDDEN_DIRECTIVES = word_set(
    "image figure toctree include literalinclude raw meta only index contents replace unicode "
    "highlight default-role role sectnum target-notes csv-table code-include rst-class"
)


def _directive(
    lines: list[str], index: int, indent: int, name: str, argument: str
) -> tuple[int, str]:
    """Return where to go on and what is seen of a directive's first lines."""
    if name in HIDDEN_DIRECTIVES:
        return _end_of(lines, index, indent), ""
    index += 1
    while index < len(lines) and re.match(r"\s*:[\w-]+:", lines[index]):
        index += 1
    return index, "" if name in ("code-block", "code", "sourcecode", "highlight") else argument


def _end_of(lines: list[str], index: int, indent: int) -> int:
    index += 1
    while index < len(lines):
        line = lines[index]
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        index += 1
    return index


HIDDEN_MACRO = re.compile(
    r"[.']\s*(?:\\\"|(?:TH|de|ig|ds|nr|if|ie|el|so|in|ft|ti|sp|ad|ll|hy|nh|ta|PD|DT)\b|TS|TE|\.)"
)
"""Lines of a manual page that only steer its look."""


def seen_man(text: str) -> str:
    kept = []
    for line in text.split("\n"):
        if HIDDEN_MACRO.match(line):
            continue
        line = re.sub(r"\\\".*$", "", line)
        line = re.sub(r"^[.']\s*(?:[TIHL]P)\s+(.*?)\s*\d*$", r"\1", line)
        kept.append(re.sub(r"^[.']\s*[A-Za-z]{1,3}\b", "", line))
    text = "\n".join(kept)
    text = re.sub(r"\\f(?:\[\w*\]|\(..|.)|\\s[+-]?\d|\\[&|^:%/,]|\\m\[\w*\]", "", text)
    text = re.sub(r"\\\((?:em|en|hy|mi)", "-", text)
    text = re.sub(r"\\\((?:bu|aq|dq|lq|rq|co|rg|tm|oq|cq)|\\\*\S", " ", text)
    return text.replace("\\-", "-").replace("\\ ", " ").replace("\\e", "\\")


def seen_notebook(text: str) -> str:
    cells = json.loads(text).get("cells", [])
    return "\n".join(
        seen_markdown("".join(c["source"]))
        if c["cell_type"] == "markdown"
        else "".join(c["source"])
        for c in cells
    )


SEEN: dict[str, Callable[[str], str]] = {
    **dict.fromkeys((".md", ".markdown", ".mdx", ".snip"), seen_markdown),
    **dict.fromkeys((".html", ".htm", ".shtml", ".xhtml"), seen_html),
    **dict.fromkeys((f".{n}" for n in range(1, 10)), seen_man),
    ".rst": seen_rst,
    ".ipynb": seen_notebook,
    ".txt": str,
}


# --- measuring -----------------------------------------------------------------------------------


def measure(folder: Path) -> FolderResult:
    """Read a folder and compare what a reader sees with what stands in chunks."""
    source = FolderSource(name="measured", path=str(folder.resolve()))
    opened = open_sources([source], workspace_root=folder, cache_dir=folder)
    corpus = read_corpus([source], opened, count_tokens=_tokens, settings=ReadSettings())
    result = FolderResult(folder.name)
    in_chunks: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for chunk in corpus.chunks:
        in_chunks[chunk.path] += words_of(chunk.text)
    for document in corpus.documents:
        in_chunks[document.path] += words_of(f"{document.title} {' '.join(document.metadata)}")
        seen = SEEN.get(suffix_of(document.path))
        if seen:
            data = (folder / document.path).read_bytes()
            visible = words_of(seen(decode_text(data, document.path)))
            lost = visible - in_chunks[document.path]
            words = visible.total()
            result.files.append(FileResult(document.path, words, words - lost.total(), lost))
    result.faults = list(faults_of(corpus))
    return result


def _tokens(text: str) -> int:
    return len(text.split()) * 4 // 3


def faults_of(corpus: Corpus) -> Iterator[str]:
    """Yield a line for each chunk with a torn fence or a table row without its header."""
    for chunk in corpus.chunks:
        lines = chunk.text.split("\n")
        index = 0
        while index < len(lines):
            if opens_fence(lines[index]):
                end = fence_end(lines, index)
                mark = lines[index].strip()[:3]
                if end == index + 1 or not lines[end - 1].strip().startswith(mark):
                    yield f"{chunk.path}:{chunk.line} torn fence: {lines[index]!r}"
                index = max(end, index + 1)
            elif ROW.match(lines[index]):
                if index + 1 >= len(lines) or not DELIMITER_ROW.match(lines[index + 1]):
                    yield f"{chunk.path}:{chunk.line} row without header: {lines[index][:60]!r}"
                while index < len(lines) and ROW.match(lines[index]):
                    index += 1
            else:
                index += 1


def main() -> int:
    """Print one line a folder and its worst files; return 1 where a folder falls short."""
    parser = argparse.ArgumentParser(description="Share of visible words that stand in chunks.")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--worst", type=int, default=5, help="files shown a folder")
    parser.add_argument("--least", type=float, default=0.99, help="share every folder needs")
    options = parser.parse_args()
    failed = False
    for folder in options.folders:
        result = measure(folder)
        failed = failed or result.share < options.least or bool(result.faults)
        below = sum(file.share < options.least for file in result.files)
        sys.stdout.write(
            f"{result.name}: {result.share:.4f} of {sum(f.words for f in result.files)} words in "
            f"{len(result.files)} files, {below} files below {options.least:g}, "
            f"{len(result.faults)} faulty chunks\n"
        )
        for file in sorted(result.files, key=lambda f: f.found - f.words)[: options.worst]:
            lost = ", ".join(f"{word} {count}" for word, count in file.lost.most_common(12))
            sys.stdout.write(f"  {file.share:.3f} {file.path} ({file.words}): {lost}\n")
        for fault in result.faults[: options.worst]:
            sys.stdout.write(f"  {fault}\n")
        sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
