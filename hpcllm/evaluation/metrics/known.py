"""What commands may hold without being invented: options, partitions, modules and paths.

Known is what the corpus pages say, what ``site.toml`` states, what a table of options of common
tools lists (``known_options.toml``, so that the metric gives the same on every machine) and, for
tools that neither has, what the tool's man page on this machine names.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from hpcllm.evaluation.metrics.markdown import code_spans, fenced_code

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

OPTIONS_FILE = "known_options.toml"
OPTION = re.compile(r"(?<![\w-])(--[A-Za-z][\w-]*|-[A-Za-z]\b)")
PATH = re.compile(r"(?<![\w/.:$}-])(?:~|\$\{?\w+\}?)?/[\w.$@{}+<>-]+(?:/[\w.$@{}+<>%-]+)*")
MODULE = re.compile(r"(?<![\w/.-])[A-Za-z][\w+-]*/\d[\w.+-]*")
PARTITION = re.compile(r"(?:--partition[=\s]+|(?<![\w-])-p[=\s]*)([\w,-]+)")


@dataclass(frozen=True)
class KnownNames:
    """The names that an answer may use.

    Attributes:
        options: options by tool; ``*`` holds those seen anywhere in the pages.
        partitions: names of partitions.
        modules: names of modules, with and without version.
        paths: every path of the pages and of the site facts with all its parents.
    """

    options: Mapping[str, frozenset[str]] = field(default_factory=dict)
    partitions: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()

    def has_option(self, tool: str, option: str) -> bool:
        """Say whether ``tool`` knows ``option``; of an unknown tool, whether any page has it."""
        known = self.options.get(tool)
        if known is None:
            return option in self.options.get("*", frozenset()) or option in man_options(tool)
        return option in known

    def has_path(self, path: str) -> bool:
        """Say whether a path is known: itself, or its folder unless that is a mere root.

        Users make files of their own below known folders; below ``/etc`` or ``/usr`` they do not,
        so that a parent of one part counts only where it is a file system of the site.
        """
        path = plain_path(path)
        parents = [path, *parents_of(path)]
        return any(
            parent in self.paths and (parent == path or is_place(parent)) for parent in parents
        )


def plain_path(path: str) -> str:
    """Return a path with ``${X}`` as ``$X``, ``~`` as ``$HOME``, and no slash at its end."""
    path = re.sub(r"\$\{(\w+)\}", r"$\1", path)
    path = re.sub(r"^~(?=/|$)", "$HOME", path)
    return path.rstrip("/.") or "/"


def parents_of(path: str) -> list[str]:
    """Return the folders above ``path``, nearest first, without the root."""
    parts = path.split("/")
    return ["/".join(parts[:n]) for n in range(len(parts) - 1, 0, -1) if "/".join(parts[:n])]


_SYSTEM_ROOTS = "/bin /boot /dev /etc /lib /lib64 /opt /proc /run /sbin /sys /usr /var"
SYSTEM_ROOTS = frozenset(_SYSTEM_ROOTS.split())
"""Folders of the operating system: knowing one says nothing of what lies in it."""


def is_place(folder: str) -> bool:
    """Say whether users keep files of their own in ``folder``."""
    return folder not in SYSTEM_ROOTS


def collect_known(
    pages: Iterable[str], site: Mapping[str, Any] | None = None, *, tools: Iterable[str] = ()
) -> KnownNames:
    """Collect the known names.

    Args:
        pages: texts of the corpus pages.
        site: content of ``site.toml``.
        tools: tools whose man pages on this machine are read where no table has them.
    """
    site = site or {}
    text = "\n\n".join(pages)
    lines = _code_lines(text)
    options = {tool: set(names) for tool, names in option_table().items()}
    options["*"] = set(OPTION.findall(text))
    for tool in tools:
        if tool not in options and (found := man_options(tool)):
            options[tool] = set(found)
    for line in lines:
        tool = _tool_of(line)
        if tool in options:
            options[tool].update(OPTION.findall(line))
    facts = "\n".join(_texts(site))
    return KnownNames(
        options={tool: frozenset(names) for tool, names in options.items()},
        partitions=frozenset(_partitions(site) | _found(PARTITION, text)),
        modules=frozenset(_modules(site, f"{text}\n{facts}")),
        paths=frozenset(_paths(f"{text}\n{facts}")),
    )


def read_known(corpus_dir: Path) -> KnownNames:
    """Collect the known names of a workspace's corpus folder and its ``site.toml``."""
    pages = [
        path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(corpus_dir.rglob("*.*"))
        if path.suffix in (".md", ".rst", ".html", ".txt") and "questions" not in path.parts
    ]
    site_file = corpus_dir / "site.toml"
    site = tomllib.loads(site_file.read_text(encoding="utf-8")) if site_file.is_file() else {}
    return collect_known(pages, site)


@lru_cache(maxsize=1)
def option_table() -> dict[str, frozenset[str]]:
    """Return the options of common tools as the package knows them."""
    text = resources.files("hpcllm.evaluation.metrics").joinpath(OPTIONS_FILE).read_text("utf-8")
    return {tool: frozenset(names.split()) for tool, names in tomllib.loads(text).items()}


@lru_cache(maxsize=64)
def man_options(tool: str) -> frozenset[str]:
    """Return the options that the man page of ``tool`` on this machine names, if there is one."""
    import gzip
    from pathlib import Path

    if not re.fullmatch(r"[\w.+-]+", tool):
        return frozenset()
    for name in (f"{tool}.1.gz", f"{tool}.1"):
        path = Path("/usr/share/man/man1") / name
        if path.is_file():
            data = path.read_bytes()
            page = (gzip.decompress(data) if name.endswith(".gz") else data).decode(
                "utf-8", "replace"
            )
            return frozenset(OPTION.findall(re.sub(r"\\f[BIRP]", "", page.replace("\\-", "-"))))
    return frozenset()


def _code_lines(text: str) -> Iterator[str]:
    for part in [*fenced_code(text), *code_spans(text)]:
        yield from part.replace("\\\n", " ").splitlines()


def _tool_of(line: str) -> str:
    words = line.strip().removeprefix("$ ").split(maxsplit=1)
    return (
        {"#SBATCH": "sbatch", "singularity": "apptainer"}.get(words[0], words[0]) if words else ""
    )


def _texts(value: Any) -> Iterator[str]:
    """Yield every text of nested tables and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _partitions(site: Mapping[str, Any]) -> set[str]:
    return {str(entry["name"]) for entry in site.get("partition", ()) if "name" in entry}


def _found(pattern: re.Pattern[str], text: str) -> set[str]:
    return {name for found in pattern.findall(text) for name in found.split(",")}


def _modules(site: Mapping[str, Any], text: str) -> set[str]:
    loaded = re.findall(r"(?:module|ml)\s+(?:load|add|swap|unload|spider)?\s*([^`\n;&|#]+)", text)
    names = {word for words in loaded for word in words.split()}
    names |= set(site.get("modules", {}).get("available", ())) | set(MODULE.findall(text))
    return names | {name.partition("/")[0] for name in names}


def _paths(text: str) -> set[str]:
    found = {plain_path(path) for path in PATH.findall(text)}
    return found | {parent for path in found for parent in parents_of(path)}
