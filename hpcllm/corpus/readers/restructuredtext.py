"""reStructuredText as Sphinx sites write it.

Role: docutils parses, made tolerant by :mod:`.rst_directives` and :mod:`.rst_roles`;
:mod:`.rst_blocks` turns its tree into blocks. Options that this reader takes::

    variables  = { command = "apptainer" }   values of {command}-style build-time variables
    prepend    = ["global.rst"]              files that the site puts before every page
    rst_prolog = "..."                       text that the site puts before every page
    rst_epilog = "..."                       text that the site puts after every page

Where the options say nothing, prolog, epilog, version and release are taken from Sphinx's
``conf.py`` as far as they stand there as plain text.

Of what a site puts before every page only definitions are taken (substitutions, roles, links):
its visible text would otherwise stand in the first passage of every page. It is read where the
file is a page of its own.
"""

from __future__ import annotations

import posixpath
import re
import threading
from collections import Counter
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.core import publish_doctree
from docutils.frontend import get_default_settings
from docutils.parsers.rst import Parser, directives, roles
from docutils.readers.standalone import Reader

from hpcllm.corpus.readers.base import ReadResult, page_name
from hpcllm.corpus.readers.blocks import Block, Heading, plain, render
from hpcllm.corpus.readers.markdown_blocks import title_heading
from hpcllm.corpus.readers.rst_blocks import Walker, unreferenced_notes
from hpcllm.corpus.readers.rst_directives import (
    KIND,
    PAGE_END,
    PAGE_START,
    PROLOG,
    PageContext,
    directive_for,
)
from hpcllm.corpus.readers.rst_inline import LinearInliner
from hpcllm.corpus.readers.rst_roles import role_for
from hpcllm.corpus.readers.sphinx_settings import sphinx_settings
from hpcllm.corpus.readers.tabs import scope_tabs
from hpcllm.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hpcllm.corpus.readers.base import RawFile

COMMON_PROLOGS = ("global.rst", "rst_prolog.rst", "prolog.rst")
"""Files in a source's root that are taken for its prolog where the options name none."""

UNKNOWN_VARIABLE_COUNT = 5
"""Occurrences from which a name in braces is taken for a build-time variable."""

_SETTINGS: dict[str, Any] = {
    "_disable_config": True,
    "doctitle_xform": False,
    "docinfo_xform": False,
    "file_insertion_enabled": False,
    "halt_level": 5,
    "input_encoding": "unicode",
    "line_length_limit": 1_000_000,
    "raw_enabled": True,  # raw HTML is converted to text, never passed on
    "report_level": 5,
    "sectsubtitle_xform": False,
    "smart_quotes": False,
    "traceback": True,  # else docutils ends the process on an error of its own
    "warning_stream": None,
}
_VARIABLE = re.compile(r"(?<![$\w{%\\])\{([A-Za-z][\w-]*)\}(?!\})")
_docutils_lock = threading.Lock()


def read(raw: RawFile) -> ReadResult:
    """Read a reStructuredText page.

    Args:
        raw: the file.

    Raises:
        IngestError: the data is binary.
    """
    variables = _variables(raw.options)
    context = PageContext(
        raw.root, raw.path, "", lambda text: _replaced(text, variables), _html_to_markdown
    )
    text = context.prepare(raw.text())
    context.prolog = context.prepare(_prolog(raw, context))
    site = sphinx_settings(raw.root)
    epilog = raw.options.get("rst_epilog") or site.get("rst_epilog") or ""
    document = _parse(text, context, str(epilog))
    walker = Walker(document, _html_to_markdown)
    blocks = walker.blocks(_own_nodes(document))
    blocks += unreferenced_notes(document, walker.noted, walker.notes)
    blocks = scope_tabs(_title_first(blocks))
    warnings = [*context.warnings, *walker.warnings, *_unknown_variables(text)]
    return ReadResult(
        title=_title(raw, blocks),
        text=render(blocks),
        metadata=walker.metadata,
        warnings=tuple(dict.fromkeys(warnings)),
        includes=tuple(sorted(set(context.includes) - {raw.path})),
    )


def _html_to_markdown(fragment: str) -> str:
    from hpcllm.corpus.readers.html_markdown import html_to_markdown

    return html_to_markdown(fragment)


def _parse(text: str, context: PageContext, epilog: str) -> nodes.document:
    """Parse with the tolerant directives and roles in place of docutils' own.

    docutils looks both up in its modules, so parsing takes a lock and puts them back.
    """
    page = f".. {PROLOG}::\n\n{text}"
    if epilog:
        page += f"\n\n.. {PAGE_END}::\n\n{context.prepare(epilog)}\n"
    with _docutils_lock:
        registry: dict[str, Any] = vars(roles)["_roles"]
        kept = directives.directive, roles.role, dict(registry)
        folder = posixpath.dirname(context.path)
        directives.directive = directive_for(context)
        roles.role = role_for(context.root, folder, context.prepare)
        try:
            return publish_doctree(
                page,
                source_path=context.path,
                parser=Parser(inliner=LinearInliner()),
                settings=_settings(),
            )
        except RecursionError as exc:
            raise IngestError(
                f"{context.path}: lists or directives are nested too deeply to be parsed; flatten "
                "them, or exclude the file from its source"
            ) from exc
        finally:
            directives.directive, roles.role = kept[:2]
            registry.clear()
            registry.update(kept[2])  # roles that the page defined are its own


@lru_cache(maxsize=1)
def _default_settings() -> Any:
    settings = get_default_settings(Parser, Reader)
    for name, value in _SETTINGS.items():
        setattr(settings, name, value)
    return settings


def _settings() -> Any:
    """Return settings for one page; making them from nothing costs more than a short page."""
    return copy(_default_settings())


def _own_nodes(document: nodes.document) -> list[nodes.Node]:
    """Return the top-level nodes of the page itself, without what its prolog shows."""
    for place, node in enumerate(document.children):
        if isinstance(node, nodes.container) and node.get(KIND) == PAGE_START:
            return list(document.children[place + 1 :])
    return list(document.children)


def _prolog(raw: RawFile, context: PageContext) -> str:
    """Return what the site puts before every page, for its definitions."""
    given = raw.options.get("prepend")
    names = [given] if isinstance(given, str) else list(given or COMMON_PROLOGS)
    site = sphinx_settings(raw.root)
    parts = [str(raw.options.get("rst_prolog") or site.get("rst_prolog") or "")]
    parts += [f".. |{name}| replace:: {site[name]}" for name in ("version", "release")
              if str(site.get(name) or "").strip()]  # fmt: skip
    for name in map(str, names):
        if posixpath.normpath(name) == raw.path:
            continue
        found = context.text(f"/{name}", "")
        if found is not None:
            parts.append(found[1])
        elif given:
            context.warnings.append(f"prolog {name} is missing (option prepend)")
    return "\n\n".join(filter(None, parts))


def _variables(options: Mapping[str, Any]) -> dict[str, str]:
    given = options.get("variables")
    return {str(k): str(v) for k, v in given.items()} if isinstance(given, dict) else {}


def _replaced(text: str, variables: Mapping[str, str]) -> str:
    """Put in the values of ``{name}`` variables, in code too, as the site's build does."""
    if not variables:
        return text
    names = "|".join(map(re.escape, sorted(variables, key=len, reverse=True)))
    return re.sub(rf"(?<!\$)\{{({names})\}}", lambda match: variables[match.group(1)], text)


def _unknown_variables(text: str) -> list[str]:
    """Warn of names in braces that occur often: values that the site's build puts in."""
    counts = Counter(_VARIABLE.findall(text))
    return [
        f"{{{name}}} occurs {count} times and has no value: set options.variables.{name} of the "
        "source if the site's build replaces it"
        for name, count in counts.items()
        if count >= UNKNOWN_VARIABLE_COUNT
    ]


def _title_first(blocks: list[Block]) -> list[Block]:
    """Return blocks with those before the page's title (side boxes, as a rule) put below it."""
    place = next((n for n, block in enumerate(blocks) if isinstance(block, Heading)), 0)
    return [blocks[place], *blocks[:place], *blocks[place + 1 :]] if place else blocks


def _title(raw: RawFile, blocks: list[Block]) -> str:
    found = title_heading(blocks)
    if found is not None and plain(found.text):
        return plain(found.text)
    return page_name(raw.path)
