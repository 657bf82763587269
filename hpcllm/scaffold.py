"""Make a new workspace from the reference skeleton.

Role: what ``hpcllm init`` does. The settings and branding files come from the reference workspace;
its documents, questions and adapters do not, since they speak of another site.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from hpcllm.errors import ConfigError
from hpcllm.workspace import SETTINGS_FILE, reference_root

FOLDERS = ("corpus", "corpus/questions", "index", "training", "ui")

SETTINGS = """\
# Settings of this workspace; every key is optional. Environment variables such as
# HPCLLM_MODEL__ID override them. `hpcllm doctor` shows what is in force.

[site]
name = {name}
# cluster = "mycluster"              # assumed when a question names no cluster
support = "your support desk"        # named when the documentation does not say
language = "en"

[index]
embedder = "all-minilm-l6-v2"

[retrieval]
passages = 8

[model]
id = "extractive"                    # quotes the pages; `hpcllm models list` shows what can write
# base_url = "http://gpu01:8000/v1"  # an OpenAI-compatible server; its key in HPCLLM_API_KEY
"""

SOURCES = """\
# Where the documentation comes from: one [[source]] each. Kinds: folder, git, man,
# web, tickets.
# `hpcllm ingest` reads them all; a page removed there is removed from the answers.
"""

FOLDER_SOURCE = """
[[source]]
name = {name}
kind = "folder"
path = {path}
# base_url = "https://docs.example.org/"   # makes citations links
# cluster = "mycluster"                     # when the pages are about one cluster only
# exclude = ["drafts/**"]
"""

EXAMPLE_SOURCE = """
# [[source]]
# name = "user-guide"
# kind = "folder"
# path = "/srv/docs/user-guide"
# base_url = "https://docs.example.org/"

# [[source]]
# name = "slurm-man-pages"
# kind = "man"
# pages = ["sbatch.1", "srun.1", "squeue.1", "slurm.conf.5"]

# [[source]]
# name = "website"
# kind = "web"
# url = "https://docs.example.org/"          # robots.txt is obeyed
# allow_private = false                     # true for sites with addresses such as 10.…

# [[source]]
# name = "tickets"
# kind = "tickets"                          # found by searches of tickets only, unless mix = true
# path = "exports/answered.jsonl"           # question, answer, date, tags; or CSV
"""


def scaffold(directory: Path, *, docs: Path | None = None, name: str | None = None) -> list[Path]:
    """Make a workspace in ``directory``.

    Args:
        directory: an empty or absent folder.
        docs: folder of documentation to list as the first source.
        name: the site's name; default: the folder's name.

    Returns:
        The files written, settings first.

    Raises:
        ConfigError: ``directory`` exists and is not empty, ``docs`` is no folder, or the place
            cannot be written to.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ConfigError(
            f"{directory} exists and is not empty: choose a new folder, or delete its content first"
        )
    if docs is not None and not docs.is_dir():
        raise ConfigError(f"--docs {docs} is no folder: expected a folder of documentation files")
    try:
        return _write(directory, docs, name or directory.resolve().name)
    except OSError as exc:
        raise ConfigError(f"{directory} cannot be made: {exc.strerror or exc}") from exc


def _write(directory: Path, docs: Path | None, name: str) -> list[Path]:
    for folder in FOLDERS:
        (directory / folder).mkdir(parents=True, exist_ok=True)
    source = EXAMPLE_SOURCE
    if docs is not None:
        slug = re.sub(r"[^a-z0-9]+", "-", docs.resolve().name.lower()).strip("-") or "docs"
        source = FOLDER_SOURCE.format(name=_quoted(slug), path=_quoted(str(docs.resolve())))
    files = {
        directory / SETTINGS_FILE: SETTINGS.format(name=_quoted(name)),
        directory / "corpus" / "sources.toml": SOURCES + source,
        directory / ".gitignore": "index/*\n!index/README.md\nvar/\n",
    }
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return [*files, *_copied(directory)]


def _copied(directory: Path) -> list[Path]:
    """Copy what a new site starts from: the index's description, branding, recipes."""
    reference = reference_root()
    copied = []
    for pattern in (
        "index/README.md",
        "ui/*.toml",
        "ui/*.yaml",
        "ui/*.svg",
        "training/recipes/*.toml",
    ):
        for path in sorted(reference.glob(pattern)):
            target = directory / path.relative_to(reference)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            copied.append(target)
    return copied


def _quoted(text: str) -> str:
    """Return ``text`` as a TOML basic string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\u{ord(m.group()):04x}", escaped) + '"'
