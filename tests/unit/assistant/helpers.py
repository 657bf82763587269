"""Passages and a searcher for the tests of the assistant."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from hpcllm.records import Passage

GPU_TEXT = """\
Request graphics cards with the option `--gres`. Jobs without it see no card.

```bash
#SBATCH --partition=gpu
#SBATCH --gres=gpu:a100:2
#SBATCH --time=12:00:00
```

| Partition | Time limit | Cards per job |
|---|---|---|
| gpu | 24 hours | 4 |
| gpu-long | 7 days | 2 |
"""
MAIL_TEXT = """\
--mail-type=<type> {#mail-type}
: Notify the user when the job changes state. Known types are BEGIN, END and FAIL.

--mail-user=<address>
: Who is notified. The default is the submitting user.
"""
QUOTA_TEXT = (
    "Each user has a quota of 50 GB in `/home`. Project data belongs in `/scratch/project`."
)


def passage(text: str, rank: int = 1, **changes: Any) -> Passage:
    values: dict[str, Any] = {
        "rank": rank,
        "score": 1 / (60 + rank),
        "similarity": 0.7 - rank / 20,
        "source": "handbook",
        "path": f"page{rank}.md",
        "title": f"Page {rank}",
        "url": f"https://docs.example/page{rank}",
        "headings": (f"Page {rank}", "Section"),
        "text": text,
        "chunk_ids": (f"{rank:032x}",),
    }
    return Passage(**values | changes)


def passages() -> list[Passage]:
    return [
        passage(GPU_TEXT, 1, title="GPU jobs", headings=("GPU jobs", "Requesting cards")),
        passage(MAIL_TEXT, 2, title="sbatch", headings=("sbatch", "Options")),
        passage(QUOTA_TEXT, 3, title="Storage", headings=("Storage", "Quota")),
    ]


@dataclass
class FakeGeneration:
    name: str = "gen-test"


@dataclass
class FakeSearcher:
    """Gives the same passages to every question and remembers what was asked."""

    found: list[Passage] = field(default_factory=passages)
    asked: list[tuple[str, int, str | None]] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    generation: FakeGeneration = field(default_factory=FakeGeneration)
    scopes: tuple[str, ...] = ()
    tickets: dict[tuple[str, str], str] = field(default_factory=dict)
    asked_scopes: list[Collection[str]] = field(default_factory=list)

    def search(
        self,
        query: str,
        *,
        k: int = 8,
        cluster: str | None = None,
        language: str = "",
        scopes: Collection[str] = (),
    ) -> list[Passage]:
        self.asked.append((query, k, cluster))
        self.asked_scopes.append(scopes)
        self.languages.append(language)
        return self.found[:k]


def count_words(text: str) -> int:
    return len(text.split())
