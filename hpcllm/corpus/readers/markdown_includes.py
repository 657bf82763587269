"""Files that Markdown pages include: ``--8<--`` snippets and mdBook's ``{{#include}}``.

Role: finds the part of a file that an include names. Where files are looked up is the page
reader's business (:mod:`hpcllm.corpus.readers.markdown`), never outside the source's root.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

MAX_INCLUDE_DEPTH = 8


_MDBOOK = re.compile(r"(?<!\\)\{\{#(?P<kind>\w+)[ \t]+(?P<target>[^}\n]+?)[ \t]*\}\}")

Find = Callable[[str], "str | None"]
"""Gives the text of a file by the name that the page uses, or None where it is missing."""


@dataclass(slots=True)
class Includes:
    """What one page may include.

    Attributes:
        find_snippet: text of a ``--8<--`` snippet.
        find_relative: text of a file relative to the page.
        warnings: collects what could not be resolved.
        trail: the snippets that led here, outermost first.
    """

    find_snippet: Find
    find_relative: Find
    warnings: list[str] = field(default_factory=list)
    trail: tuple[str, ...] = ()

    def deeper(self, target: str) -> Includes:
        """Return the same for the text of the included ``target``."""
        trail = (*self.trail, target)
        return Includes(self.find_snippet, self.find_relative, self.warnings, trail)

    @property
    def depth(self) -> int:
        """How many includes led here."""
        return len(self.trail)

    def snippet(self, target: str) -> str | None:
        """Return the text of ``name``, ``name:first:last`` or ``name:section``, or None."""
        if self.depth >= MAX_INCLUDE_DEPTH:
            return None
        match = re.match(r"^(.*?)(?::(\d*)(?::(\d*))?|:([\w-]+))?$", target.strip())
        name = match.group(1) if match else target
        text = self.find_snippet(name)
        if text is None or match is None:
            return None
        if match.group(4):
            return _section(text, match.group(4))
        if match.group(2) is not None:
            first, last = int(match.group(2) or 1), match.group(3)
            return "\n".join(text.split("\n")[first - 1 : int(last) if last else None])
        return "\n".join(line for line in text.split("\n") if "--8<-- [" not in line).strip("\n")

    def mdbook(self, line: str) -> str:
        """Return a line with mdBook's includes put in; escaped ones lose their escape."""
        return _MDBOOK.sub(self._mdbook_target, line).replace("\\{{#", "{{#")

    def _mdbook_target(self, match: re.Match[str]) -> str:
        kind, target = match.group("kind"), match.group("target")
        if kind == "title":
            return ""
        if kind not in ("include", "rustdoc_include", "playground", "playpen"):
            return match.group()
        name, *parts = target.split(" ")[0].split(":")
        text = self.find_relative(name) if self.depth < MAX_INCLUDE_DEPTH else None
        if text is None:
            self.warnings.append(f"include {name} is missing")
            return ""
        return _mdbook_part(text, parts).strip("\n")


def _section(text: str, name: str) -> str:
    """Return what stands between ``--8<-- [start:name]`` and ``[end:name]``."""
    kept: list[str] = []
    is_inside = False
    for line in text.split("\n"):
        if f"[start:{name}]" in line:
            is_inside = True
        elif f"[end:{name}]" in line:
            is_inside = False
        elif is_inside and "--8<-- [" not in line:
            kept.append(line)
    return "\n".join(kept)


def _mdbook_part(text: str, parts: list[str]) -> str:
    """Return the lines ``first:last`` or the part between ``ANCHOR: name`` marks."""
    lines = text.split("\n")
    if not parts:
        return "\n".join(line for line in lines if not re.search(r"ANCHOR(_END)?:", line))
    if parts[0] and not parts[0].isdigit():
        return "\n".join(_anchored(lines, parts[0]))
    first = int(parts[0] or 1)
    if len(parts) == 1:
        return lines[first - 1] if first <= len(lines) else ""
    last = int(parts[1]) if parts[1].isdigit() else len(lines)
    return "\n".join(lines[first - 1 : last])


def _anchored(lines: list[str], name: str) -> Iterator[str]:
    is_inside = False
    for line in lines:
        if re.search(rf"ANCHOR:\s*{re.escape(name)}\b", line):
            is_inside = True
        elif re.search(rf"ANCHOR_END:\s*{re.escape(name)}\b", line):
            is_inside = False
        elif is_inside and not re.search(r"ANCHOR(_END)?:", line):
            yield line
