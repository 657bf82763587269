"""Roles and labels of reStructuredText as Sphinx sites use them.

Role: gives docutils a role for every name: cross-references show their text, or the title that
their label names anywhere in the source, as the built site would.
"""

from __future__ import annotations

import posixpath
import re
import threading
import time
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.parsers.rst import roles

from hpcllm.corpus.readers.base import word_set

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

LABEL_SECONDS = 60.0
"""How long the titles behind a source's labels are kept before they are looked up again."""

MAX_FILE_BYTES = 2_000_000

_CODE_ROLES = word_set(
    """attr bash c class cmd code command console const cpp data envvar exc file func kbd
    literal lua makevar meth mod module obj option program python r regexp samp sh shell"""
)
_STRONG_ROLES = frozenset({"dfn", "guilabel", "menuselection", "strong"})
_BUILT_IN = word_set(
    """code emphasis literal math pep pep-reference raw rfc rfc-reference strong sub
    subscript sup superscript t title title-reference"""
)
_TITLED = re.compile(r"^(?P<title>.*?)\s*(?<!\\)<(?P<target>[^<>]*)>$", re.DOTALL)
_LABEL = re.compile(
    r"^[ \t]*\.\.[ ]+_(?P<label>`[^`\n]+`|(?:\\.|[^:\\\n])+):[ \t]*\n"
    r"(?:[ \t]*\n|[ \t]*\.\.[^\n]*\n|[ \t]{2,}:[^\n]*\n)*"
    r"(?:(?P<over>[=\-`:'\"~^_*+#<>.])(?P=over){2,}[ \t]*\n)?(?P<title>[^\s.][^\n]*)\n"
    r"(?P<under>[=\-`:'\"~^_*+#<>.])(?P=under){2,}[ \t]*$",
    re.MULTILINE,
)

_docutils_role = roles.role
_titles: dict[Path, tuple[float, dict[str, str]]] = {}
_titles_lock = threading.Lock()


def label_titles(root: Path) -> Mapping[str, str]:
    """Return the section title behind each label of a source, by normalised label.

    The result is kept for :data:`LABEL_SECONDS`: one look at a source serves all its pages.
    """
    with _titles_lock:
        made, titles = _titles.get(root, (0.0, {}))
        if not titles or time.monotonic() - made > LABEL_SECONDS:
            titles = _collect(root)
            _titles[root] = (time.monotonic(), titles)
        return titles


def _collect(root: Path) -> dict[str, str]:
    titles: dict[str, str] = {}
    for path in sorted(root.rglob("*.rst")):
        try:
            if path.is_symlink() or path.stat().st_size > MAX_FILE_BYTES:
                continue
            text = path.read_text("utf-8", errors="replace")
        except OSError:  # unreadable here means unreadable as a page: reported there
            continue
        name = path.relative_to(root).with_suffix("").as_posix()
        first = re.search(r"^([^\s.][^\n]*)\n([=\-~#*^])\2{2,}[ \t]*$", text, re.MULTILINE)
        if first:
            titles[f"/{name}"] = _plain(first.group(1))
        for match in _LABEL.finditer(text):
            titles.setdefault(
                normalised(match.group("label").strip("`")), _plain(match.group("title"))
            )
    return titles


def normalised(label: str) -> str:
    """Return a label as it is compared: lower case, single spaces."""
    return " ".join(label.replace("\\", "").lower().split())


def _plain(title: str) -> str:
    return re.sub(
        r"[`*]+", "", re.sub(r":[\w:-]+:`([^`<]*?)\s*(?:<[^>]*>)?`", r"\1", title)
    ).strip()


def role_for(root: Path, folder: str, prepare: Callable[[str], str]) -> Callable[..., Any]:
    """Return the function that docutils asks for roles while it parses one page.

    Args:
        root: the source's root, for the titles behind labels.
        folder: the page's folder relative to it.
        prepare: puts in the values of build-time variables.
    """

    def find(name: str, language_module: Any, lineno: int, reporter: Any) -> tuple[Any, list[Any]]:
        plain = name.lower()
        if plain in _BUILT_IN or plain in vars(roles)["_roles"]:
            return _docutils_role(name, language_module, lineno, reporter)
        return _role(plain.rpartition(":")[2], root, folder, prepare), []

    return find


def _role(name: str, root: Path, folder: str, prepare: Callable[[str], str]) -> Callable[..., Any]:
    def run(
        role: str,
        rawtext: str,
        text: str,
        lineno: int,
        inliner: Any,
        options: Any = None,
        content: Any = None,
    ) -> tuple[list[nodes.Node], list[Any]]:
        shown = nodes.unescape(text)
        if name in _CODE_ROLES:
            return [nodes.literal(rawtext, shown.lstrip("~!"))], []
        titled = _TITLED.match(shown)
        if titled and titled.group("title"):
            shown = titled.group("title")
        elif name in ("ref", "numref", "doc", "any"):
            shown = prepare(_title_of(shown.strip("<>"), root, folder, is_document=name == "doc"))
        if name in _STRONG_ROLES or "bold" in name:
            return [nodes.strong(rawtext, shown)], []
        return [nodes.inline(rawtext, shown)], []

    return run


def _title_of(target: str, root: Path, folder: str, *, is_document: bool) -> str:
    titles = label_titles(root)
    if is_document:
        path = (
            target
            if target.startswith("/")
            else posixpath.normpath(posixpath.join("/", folder, target))
        )
        return titles.get(path, target)
    title = titles.get(normalised(target))
    return title if title is not None else re.sub(r"(?<=\w)[_-](?=\w)", " ", target)
