"""What a documentation site's own configuration says about how its pages are built.

Role: finds ``mkdocs.yml``, ``_config.yml`` (with the files of ``_data``), ``book.toml`` or Sphinx's
``conf.py`` in a source and merges what they say with the source's ``[source.options]``. Options
that the Markdown reader takes::

    templates     = "auto" | "none" | "jinja" | "liquid"
    variables     = { name = "value", site = { name = "…" } }
    data          = { applications = "docs/assets/module-list.json" }   in Jekyll: site.data too
    include_dirs  = ["docs/_partials"]      folders that template includes are looked up in
    snippet_dirs  = ["docs/_snippets"]      folders that --8<-- snippets are looked up in
    anchor_style  = "auto" | "plain" | "mkdocs" | "mdbook" | "github" | "kramdown"
"""

from __future__ import annotations

import csv
import json
import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hpcllm.corpus.readers.base import decode_text, file_inside
from hpcllm.corpus.readers.front_matter import parse_yaml
from hpcllm.corpus.readers.sphinx_settings import sphinx_settings
from hpcllm.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hpcllm.corpus.readers.base import RawFile

MAX_DATA_BYTES = 20_000_000
"""Largest data or configuration file that is loaded."""
MAX_DATA_FILES = 500
"""Files of a site's data folder that are loaded."""
DATA_SUFFIXES = frozenset((".yml", ".yaml", ".json", ".csv", ".tsv"))


@dataclass(frozen=True, slots=True)
class SiteOptions:
    """How the pages of one source are built.

    Attributes:
        templates: ``none``, ``jinja``, ``liquid`` or ``auto`` (only pages with block tags).
        variables: values that templates may name.
        include_dirs: folders for template includes, relative to the root.
        snippet_dirs: folders for snippets, relative to the root.
        anchor_style: how the site makes anchors of headings.
        substitutions: values that MyST pages of a Sphinx site may name outside code.
        warnings: configuration that could not be read.
    """

    templates: str = "auto"
    variables: Mapping[str, Any] = field(default_factory=dict)
    include_dirs: tuple[str, ...] = ("",)
    snippet_dirs: tuple[str, ...] = ("",)
    anchor_style: str = "plain"
    substitutions: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def site_options(raw: RawFile) -> SiteOptions:
    """Return the options that hold for one file of a source."""
    warnings: list[str] = []
    site = _detect(raw.root, warnings)
    options = raw.options
    variables = _merge(site.variables, _local_variables(raw, site, warnings))
    data = _data_files(raw, warnings)
    variables = _merge(variables, data)
    if site.templates == "liquid":
        variables = _merge(variables, {"site": {"data": data}})
    given = options.get("variables") or {}
    variables = _merge(variables, given if isinstance(given, dict) else {})
    templates = str(options.get("templates", "auto"))
    if templates == "auto":
        is_named = bool(options.get("variables") or options.get("data"))
        templates = "jinja" if is_named and site.templates == "auto" else site.templates
    style = str(options.get("anchor_style", "auto"))
    return SiteOptions(
        templates=templates,
        variables=variables,
        include_dirs=(*_folders(options, "include_dirs"), *site.include_dirs),
        snippet_dirs=(*_folders(options, "snippet_dirs"), *site.snippet_dirs),
        anchor_style=site.anchor_style if style == "auto" else style,
        substitutions=site.substitutions,
        warnings=tuple(warnings),
    )


def _folders(options: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = options.get(key) or ()
    return (value,) if isinstance(value, str) else tuple(map(str, value))


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return both tables merged, nested ones too; the second wins."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = _merge(old, value) if both else value  # type: ignore[arg-type]
    return merged


def _detect(root: Path, warnings: list[str]) -> SiteOptions:
    for name in ("mkdocs.yml", "mkdocs.yaml"):
        path = _mkdocs_file(root, name)
        if path is not None:
            return _mkdocs(_load(path, warnings), inside=path.parent == root)
    config = file_inside(root, "_config.yml")
    if config is not None:
        values = _load(config, warnings)
        folder = str(values.get("data_dir") or "_data")
        site = {**values, "data": _data_folder(root, folder, warnings)}
        return SiteOptions("liquid", {"site": site}, ("_includes", ""), anchor_style="kramdown")
    substitutions = sphinx_settings(root).get("myst_substitutions")
    if isinstance(substitutions, dict):
        return SiteOptions(substitutions=substitutions)
    is_book = any(file_inside(root, name) for name in ("book.toml", "src/SUMMARY.md", "SUMMARY.md"))
    return SiteOptions(anchor_style="mdbook" if is_book else "plain")


def _mkdocs_file(root: Path, name: str) -> Path | None:
    """Return the site's file in the root, or beside a root that is the site's ``docs_dir``."""
    found = file_inside(root, name)
    if found is not None:
        return root / name
    beside = root.parent / name
    if root.name and beside.is_file():
        docs = _load(beside, []).get("docs_dir", "docs")
        if str(docs).strip("/") == root.name:
            return beside
    return None


def _mkdocs(config: Mapping[str, Any], *, inside: bool) -> SiteOptions:
    docs = str(config.get("docs_dir") or "docs").strip("/") if inside else ""
    extra = config.get("extra")
    extra = extra if isinstance(extra, dict) else {}
    macros = _plugin(config.get("plugins"), "macros")
    snippets = _plugin(config.get("markdown_extensions"), "pymdownx.snippets") or {}
    base_path = snippets.get("base_path") or []
    bases = [base_path] if isinstance(base_path, str) else list(base_path)
    variables = {**extra, "config": dict(config), "extra": extra}
    includes = [str((macros or {}).get("include_dir") or ""), "overrides", docs, ""]
    return SiteOptions(
        templates="auto" if macros is None else "jinja",
        variables={} if macros is None else variables,
        include_dirs=tuple(dict.fromkeys(folder for folder in includes)),
        snippet_dirs=tuple(dict.fromkeys([*map(str, bases), "", docs])),
        anchor_style="mkdocs",
    )


def _plugin(plugins: Any, name: str) -> dict[str, Any] | None:
    """Return a plugin's options from a list or table of plugins, or None where it is not used."""
    if isinstance(plugins, dict):
        return (plugins[name] or {}) if name in plugins else None
    for plugin in plugins if isinstance(plugins, list) else ():
        if plugin == name:
            return {}
        if isinstance(plugin, dict) and name in plugin:
            return plugin[name] if isinstance(plugin[name], dict) else {}
    return None


def _local_variables(raw: RawFile, site: SiteOptions, warnings: list[str]) -> dict[str, Any]:
    """Return values of ``_config*.yml`` files in the folders above the file, the nearest first.

    A Jekyll source can hold one set of values and fragments for each cluster in folders of its
    own; a fragment is read with the values of its own folder.
    """
    if site.templates != "liquid":
        return {}
    merged: dict[str, Any] = {}
    for config in _configs_above(raw.root, raw.path.rpartition("/")[0]):
        merged = _merge(merged, {"site": _load(config, warnings)})
    return merged


@lru_cache(maxsize=4096)
def _configs_above(root: Path, folder: str) -> tuple[Path, ...]:
    """Return the configuration files in ``folder`` and those above it, outermost first."""
    if not folder or folder == ".":
        return ()
    above = _configs_above(root, folder.rpartition("/")[0])
    found = sorted((root / folder).glob("_config*.yml"))
    inside = (file_inside(root, path.relative_to(root).as_posix()) for path in found)
    return (*above, *(path for path in inside if path is not None))


def variables_folder(raw: RawFile) -> str:
    """Return the name of the nearest folder above the file that has values of its own."""
    configs = _configs_above(raw.root, raw.path.rpartition("/")[0])
    return configs[-1].parent.name if configs else ""


def _data_files(raw: RawFile, warnings: list[str]) -> dict[str, Any]:
    data = raw.options.get("data") or {}
    values: dict[str, Any] = {}
    for name, target in data.items() if isinstance(data, dict) else ():
        path = file_inside(raw.root, str(target))
        if path is None:
            warnings.append(f"data file {target} is missing (option data.{name})")
        else:
            values[name] = _load(path, warnings)
    return values


def _data_folder(root: Path, folder: str, warnings: list[str]) -> dict[str, Any]:
    """Return what the files of a Jekyll site's data folder hold, by their names without suffix."""
    values: dict[str, Any] = {}
    place = root / folder.strip("/")
    if not folder.strip("/") or ".." in place.parts or not place.is_dir():
        return values
    for path in sorted(place.rglob("*"))[:MAX_DATA_FILES]:
        relative = path.relative_to(root).as_posix()
        if path.suffix in DATA_SUFFIXES and file_inside(root, relative) is not None:
            table = values
            for name in path.relative_to(place).parts[:-1]:
                table = table.setdefault(name, {})
            loaded = _load(path, warnings)
            table[path.stem] = loaded.get("items", loaded) if len(loaded) == 1 else loaded
    return values


def _load(path: Path, warnings: list[str]) -> dict[str, Any]:
    try:
        status = path.stat()
        if status.st_size > MAX_DATA_BYTES:
            warnings.append(f"{path.name} is not loaded: {status.st_size} bytes")
            return {}
        return _parsed(path, status.st_mtime_ns, status.st_size)
    except (OSError, ValueError, IngestError) as exc:
        warnings.append(f"{path.name} cannot be read: {' '.join(str(exc).split())}")
        return {}


@lru_cache(maxsize=64)
def _parsed(path: Path, modified_ns: int, size: int) -> dict[str, Any]:
    """Parse a YAML, JSON, TOML or CSV file once for each of its versions."""
    text = decode_text(path.read_bytes(), path.name)
    if path.suffix == ".json":
        values = json.loads(text)
    elif path.suffix in (".csv", ".tsv"):
        rows = csv.DictReader(text.splitlines(), delimiter="\t" if path.suffix == ".tsv" else ",")
        values = [{str(key): value for key, value in row.items()} for row in rows]
    elif path.suffix == ".toml":
        values = tomllib.loads(text)
    else:
        values = parse_yaml(text)
    return values if isinstance(values, dict) else {"items": values}
