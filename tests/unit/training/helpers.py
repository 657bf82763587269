"""Pages, sites and files that tests of the training stage share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hpcllm.assistant.prompt import PromptBudget
from hpcllm.corpus.chunker import chunk_document
from hpcllm.index.build import build_generation
from hpcllm.index.embedders.hashing import HashEmbedder
from hpcllm.index.generation import open_current
from hpcllm.index.search import Searcher
from hpcllm.records import Document
from hpcllm.training.assembly import Reader, Site
from hpcllm.training.records import Section
from hpcllm.training.sections import sections_of

STORAGE = """\
# Storage

## Scratch

Files in scratch are deleted after 45 days without access.

| Area | Quota | Backup |
|---|---|---|
| home | 50 GB | nightly |
| scratch | 10 TB | none |

## Find large folders

To find large folders, run `du`:

```bash
du -h --max-depth=1 ~ | sort -h
```
"""
JOBS = """\
# Jobs

## Options

`--mem=SIZE`
: Memory for each node. The default is 4 GB.

`--time=TIME`
: Longest run time of the job.

## Errors

| Message | What to do |
|---|---|
| `Disk quota exceeded` | Delete files or ask for more space. |
| `Invalid qos specification` | Choose another QOS. |
"""


def count_words(text: str) -> int:
    return len(text.split())


def document(text: str, path: str = "page.md", **fields: str) -> Document:
    title = text.split("\n", 1)[0].strip("# ")
    return Document(
        source=fields.pop("source", "docs"), path=path, title=title, text=text, **fields
    )


def sections(text: str, **fields: str) -> list[Section]:
    return list(sections_of(document(text, **fields)))


def reader(tokens: int = 600, passages: int = 3) -> Reader:
    return Reader(PromptBudget(tokens=tokens, passages=passages), count_words)


def make_site(folder: Path, *pages: Document, name: str = "docs") -> Site:
    """Build an index of the pages and open it as a site."""
    chunks = [c for page in pages for c in chunk_document(page, count_tokens=count_words)]
    build_generation(folder, chunks, list(pages), HashEmbedder())
    return Site(name, Searcher(open_current(folder), HashEmbedder()))


SiteMaker = Callable[..., Site]
