"""Markdown of every family that HPC centres write: MkDocs, mdBook, Jekyll, MyST, GitHub.

Role: the flow of one page is front matter, templates, block extensions, parse, blocks, anchors,
tabs, canonical text; each step is a module of its own beside this one.
"""

from __future__ import annotations

import posixpath
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from hpcllm.corpus.readers.anchors import assign_anchors
from hpcllm.corpus.readers.base import ReadResult, decode_text, file_inside, page_name
from hpcllm.corpus.readers.blocks import Block, Heading, plain, render
from hpcllm.corpus.readers.front_matter import FrontMatter, fact_blocks, split_front_matter
from hpcllm.corpus.readers.markdown_blocks import parse_blocks, title_heading
from hpcllm.corpus.readers.markdown_includes import Includes
from hpcllm.corpus.readers.markdown_lines import LineReader
from hpcllm.corpus.readers.site_options import SiteOptions, site_options, variables_folder
from hpcllm.corpus.readers.tabs import scope_tabs
from hpcllm.corpus.readers.templates import has_template_tags, render_template
from hpcllm.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hpcllm.corpus.readers.base import RawFile
    from hpcllm.records import Status

OUTDATED_WORDS = frozenset({"archived", "deprecated", "legacy", "obsolete", "outdated"})
"""Values of the front-matter key ``status`` that say not to rely on a page."""

MAX_INCLUDE_BYTES = 2_000_000
MAX_INCLUDES = 1000
"""Files put into one page; files that include one another many times grow without bounds."""


def read(raw: RawFile) -> ReadResult:
    """Read a Markdown page.

    Args:
        raw: the file; see :mod:`hpcllm.corpus.readers.site_options` for the options it takes.

    Raises:
        IngestError: the data is binary.
    """
    page = _Page(raw)
    front = split_front_matter(raw.text())
    text = page.expanded(front)
    blocks = parse_blocks(text, _html_to_markdown)
    title = _title(raw, front, blocks)
    assign_anchors(blocks, page.options.anchor_style)
    blocks = _with_facts(scope_tabs(blocks), fact_blocks(front.values))
    status, notice = _status(front.values)
    return ReadResult(
        title=title,
        text=render(blocks),
        language=_language(front.values),
        metadata=_metadata(raw, front),
        status=status,
        notice=notice,
        warnings=(*front.warnings, *page.options.warnings, *dict.fromkeys(page.warnings)),
        includes=tuple(sorted(page.includes)),
    )


def _html_to_markdown(fragment: str) -> str:
    from hpcllm.corpus.readers.html_markdown import html_to_markdown

    return html_to_markdown(fragment)


class _Page:
    """One page on its way to plain Markdown: what it includes and what went wrong."""

    def __init__(self, raw: RawFile) -> None:
        self.raw = raw
        self.options: SiteOptions = site_options(raw)
        self.warnings: list[str] = []
        self.includes: set[str] = set()
        self.include_count = 0

    def expanded(self, front: FrontMatter) -> str:
        """Return the body with templates, snippets and block extensions resolved."""
        body = front.body
        count = len(self.warnings)
        if self._uses_templates(body):
            include = partial(self._find, (*self.options.include_dirs, self._folder))
            variables = self._variables(front)
            is_liquid = self.options.templates == "liquid"
            body = render_template(body, variables, include, self.warnings, blank_none=is_liquid)
        substitutions = _substitutions(front.values, self.options.substitutions)
        if substitutions:
            body = render_template(body, substitutions, _nothing, self.warnings, skip_code=True)
        includes = Includes(
            partial(self._find, (*self.options.snippet_dirs, self._folder)),
            partial(self._find, (self._folder,)),
            self.warnings,
        )
        lines = LineReader(includes, _html_to_markdown)
        body = lines.rewrite(body)
        shift = front.first_line - 1
        self.warnings[count:] = [_shifted(warning, shift) for warning in self.warnings[count:]]
        return body

    @property
    def _folder(self) -> str:
        return posixpath.dirname(self.raw.path)

    def _uses_templates(self, body: str) -> bool:
        kind = self.options.templates
        return kind in ("jinja", "liquid") or (kind == "auto" and has_template_tags(body))

    def _variables(self, front: FrontMatter) -> dict[str, Any]:
        title = front.values.get("title") or _heading_line(front.body) or page_name(self.raw.path)
        return {
            **self.options.variables,
            **{key: value for key, value in front.values.items() if isinstance(key, str)},
            "page": {**front.values, "title": title, "meta": dict(front.values)},
        }

    def _find(self, folders: Sequence[str], name: str) -> str | None:
        """Return the text of the first file called ``name`` in the folders of this source."""
        for folder in dict.fromkeys(folders):
            path = posixpath.normpath(posixpath.join(folder, name.strip()))
            found = None if path.startswith("..") else file_inside(self.raw.root, path)
            if found is not None and path == self.raw.path:
                self.warnings.append(f"{path} includes itself: the include was left out")
                return None
            if found is not None and found.stat().st_size <= MAX_INCLUDE_BYTES:
                self.include_count += 1
                if self.include_count > MAX_INCLUDES:
                    self.warnings.append(f"more than {MAX_INCLUDES} includes: the rest is left out")
                    return None
                self.includes.add(path)
                return _included_text(found.read_bytes(), path)
        return None


def _nothing(name: str) -> str | None:
    """Stand for the files of templates that can include none."""
    return None


def _substitutions(values: Mapping[str, Any], site: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a MyST page may name in double braces: the site's values and its own."""
    myst = values.get("myst")
    own = [values.get("substitutions"), myst.get("substitutions") if isinstance(myst, dict) else 0]
    found = dict(site)
    for table in own:
        found |= table if isinstance(table, dict) else {}
    return found


def _included_text(data: bytes, path: str) -> str | None:
    try:
        return split_front_matter(decode_text(data, path)).body.strip("\n")
    except IngestError:  # a binary file is no text to include
        return None


def _shifted(warning: str, lines: int) -> str:
    """Return a warning whose line counts from the file's first line, not the body's."""
    return re.sub(r"^line (\d+)", lambda match: f"line {int(match.group(1)) + lines}", warning)


def _title(raw: RawFile, front: FrontMatter, blocks: Sequence[Block]) -> str:
    given = front.values.get("title")
    if isinstance(given, (str, int, float)) and str(given).strip():
        return " ".join(str(given).split())
    found = title_heading(blocks)
    if found is not None and plain(found.text):
        return plain(found.text)
    catalog = front.values.get("catalog")
    if isinstance(catalog, dict) and catalog.get("name"):
        return str(catalog["name"])
    return _fragment_title(raw)


def _fragment_title(raw: RawFile) -> str:
    """Return a title for a page without heading: its name, and for which site it is."""
    name = page_name(raw.path)
    folder = variables_folder(raw)
    return f"{name} ({folder.replace('_', ' ')})" if folder and folder not in (".", "") else name


def _heading_line(body: str) -> str:
    match = re.search(r"^#[ \t]+(.+?)[ \t#]*$", body[:4000], re.MULTILINE)
    return match.group(1) if match else ""


def _with_facts(blocks: list[Block], facts: list[Block]) -> list[Block]:
    """Put facts of the front matter below the page's title."""
    if not facts:
        return blocks
    place = 1 if blocks and isinstance(blocks[0], Heading) and blocks[0].level == 1 else 0
    return [*blocks[:place], *facts, *blocks[place:]]


def _status(values: Mapping[str, Any]) -> tuple[Status, str]:
    word = str(values.get("status") or "").strip().lower()
    if word in OUTDATED_WORDS:
        return "outdated", f"This page is marked as {word}."
    for name in sorted(OUTDATED_WORDS):
        if values.get(name) is True:
            return "outdated", f"This page is marked as {name}."
    return "current", ""


def _language(values: Mapping[str, Any]) -> str | None:
    value = values.get("lang") or values.get("language") or values.get("locale")
    match = re.fullmatch(r"([a-z]{2,3})(?:[-_]([A-Za-z]{2}))?", str(value or "").strip())
    if match is None:
        return None
    return match.group(1) + (f"-{match.group(2).upper()}" if match.group(2) else "")


def _metadata(raw: RawFile, front: FrontMatter) -> dict[str, str]:
    metadata = front.metadata
    folder = variables_folder(raw)
    if folder and folder != ".":
        metadata.setdefault("site", folder.replace("_", " "))
    return metadata
