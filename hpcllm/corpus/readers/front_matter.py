"""YAML and TOML front matter of Markdown pages.

Role: splits it off, turns it into text metadata, and says which of it is content that a reader
of the page should be able to find (licence and availability of an application, the questions of
a lesson).
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hpcllm.corpus.readers.base import as_text
from hpcllm.corpus.readers.blocks import Block, Listing, Paragraph

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PRESENTATION = """
    archive_feed aliases author authors avatar break cascade class comments created created_at
    cssclass date description draft edit_url feedback file_format hide hide_title html_meta icon
    id image images identifier jupytext kernelspec lang language lastmod layout linktitle markup
    menu meta modified myst mystnb nav navigation next no_list no_module order og_image orphan
    page_id pagination_next pagination_prev parent permalink position prev published redirect
    redirect_from root search section sidebar_label sidebar_position slug social status style
    subtitle substitutions summary tags template title toc tocdepth type updated url vote_count
    vote_sum weight zendesk_article_id zendesk_section_id
"""
PRESENTATION_KEYS = frozenset(_PRESENTATION.split())
"""Keys that steer the site or are searched as metadata; all others are content."""

MAX_YAML_VALUES = 200_000
"""Values of one YAML text with its aliases written out; past that they are meant to do harm."""

_YAML_BLOCK = re.compile(
    r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
_TOML_BLOCK = re.compile(r"\A\+\+\+[ \t]*\n(.*?)^\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """Front matter and the page without it.

    Attributes:
        values: the parsed mapping, empty where there is none.
        body: the page's text after it.
        first_line: line of the file that the body starts on, from 1.
        warnings: why it could not be parsed.
    """

    values: Mapping[str, Any]
    body: str
    first_line: int = 1
    warnings: tuple[str, ...] = field(default=())

    @property
    def metadata(self) -> dict[str, str]:
        """All values as text, unknown keys too."""
        pairs = ((str(key), as_text(value)) for key, value in self.values.items())
        return {key: text for key, text in pairs if text}


def split_front_matter(text: str) -> FrontMatter:
    """Split ``text`` into front matter and body.

    Broken front matter is never lost: its lines are read one by one as ``key: value``, and a
    warning says so.
    """
    for pattern, parse in ((_YAML_BLOCK, parse_yaml), (_TOML_BLOCK, tomllib.loads)):
        match = pattern.match(text)
        if match:
            return _split(text, match, parse)
    return FrontMatter({}, text)


def _split(text: str, match: re.Match[str], parse: Any) -> FrontMatter:
    body = text[match.end() :]
    first_line = text.count("\n", 0, match.end()) + 1
    try:
        values = parse(match.group(1))
    except ValueError as exc:  # yaml.YAMLError is turned into one below; TOMLDecodeError is one
        reason = " ".join(str(exc).split())
        warning = f"line 1: front matter cannot be parsed and was read line by line: {reason}"
        return FrontMatter(_salvage(match.group(1)), body, first_line, (warning,))
    if values is None:
        return FrontMatter({}, body, first_line)
    if not isinstance(values, dict):
        return FrontMatter({}, text)  # a page that merely starts with a thematic break
    return FrontMatter({str(key): value for key, value in values.items()}, body, first_line)


def parse_yaml(text: str) -> Any:
    """Return the first document of a YAML text; unknown tags are read as plain values.

    Raises:
        ValueError: the text is not YAML.
    """
    import yaml

    loader = yaml_loader()(text)
    try:
        node = loader.get_single_node()
        _check_expansion(node)
        return None if node is None else loader.construct_document(node)
    except (yaml.YAMLError, ValueError, TypeError, KeyError) as exc:
        raise ValueError(str(exc)) from exc


def _check_expansion(node: Any) -> None:
    """Refuse YAML whose aliases repeat one another to a size without bounds.

    Raises:
        ValueError: more than :data:`MAX_YAML_VALUES` values once aliases are written out.
    """
    pending, count = [node], 0
    while pending:
        value = pending.pop().value if pending[-1] is not None else pending.pop()
        count += 1
        if count > MAX_YAML_VALUES:
            raise ValueError(f"its aliases repeat more than {MAX_YAML_VALUES} values")
        for item in value if isinstance(value, list) else ():
            pending.extend(item if isinstance(item, tuple) else (item,))


def yaml_loader() -> Any:
    """Return a safe YAML loader that reads unknown tags (``!ENV``, ``!!python/name``) as text."""
    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class TolerantLoader(base):  # type: ignore[misc, valid-type]
        pass

    def as_plain(loader: Any, suffix: str, node: Any) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return loader.construct_scalar(node)
        if isinstance(node, yaml.SequenceNode):
            values = loader.construct_sequence(node, deep=True)
            return values[-1] if suffix == "ENV" and values else values  # !ENV [NAME, default]
        return loader.construct_mapping(node, deep=True)

    TolerantLoader.add_multi_constructor("!", as_plain)
    TolerantLoader.add_multi_constructor("tag:yaml.org,2002:python/", as_plain)
    return TolerantLoader


def _salvage(text: str) -> dict[str, str]:
    pairs = re.findall(r"^([\w-]+):[ \t]*(.*)$", text, re.MULTILINE)
    return {key: value.strip().strip("'\"") for key, value in pairs}


def fact_blocks(values: Mapping[str, Any]) -> list[Block]:
    """Return front matter that is content as canonical blocks.

    Short facts become ``Label: value`` lines, lists of sentences become lists under their label.
    """
    facts: list[str] = []
    blocks: list[Block] = []
    for key, value in _flattened(values):
        label = key.replace("_", " ").replace("-", " ").strip().capitalize()
        if _is_sentences(value):
            blocks.append(Paragraph(f"**{label}:**"))
            blocks.append(Listing([[Paragraph(as_text(item))] for item in value]))
        elif as_text(value):
            facts.append(f"{label}: {as_text(value)}")
    items: list[list[Block]] = [[Paragraph(fact)] for fact in facts]
    return [Listing(items), *blocks] if items else blocks


def _flattened(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if key.lower() in PRESENTATION_KEYS:
            continue
        if isinstance(value, dict):  # one level is grouping, such as ``catalog:``; keep its names
            nested = {str(name): item for name, item in value.items()}
            yield from _nested(nested)
        else:
            yield key, value


def _nested(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if key.lower() not in PRESENTATION_KEYS - {"description", "summary", "status"}:
            yield key, value


def _is_sentences(value: Any) -> bool:
    return isinstance(value, list) and any(len(as_text(item).split()) > 4 for item in value)
