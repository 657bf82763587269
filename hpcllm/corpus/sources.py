"""Where documents come from: the list of sources, validated, and their files.

Role: the first step of the corpus stage. ``corpus/sources.toml`` holds one ``[[source]]`` table a
source; :func:`load_sources` checks all of them at once, :func:`open_source` finds the files.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from hpcllm.corpus.git_checkout import SAFE_REF, check_url, fetch, revision_of, top_of
from hpcllm.corpus.man_folders import find_pages, manual_folders, no_manuals
from hpcllm.corpus.matching import matches_any
from hpcllm.corpus.source_files import FileEntry, FolderWalk, Links, SourceFiles, UrlStyle
from hpcllm.errors import ConfigError, IngestError, nearest
from hpcllm.workspace import problems_of, read_toml

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger(__name__)

__all__ = [
    "FileEntry",
    "FolderSource",
    "GitSource",
    "ManSource",
    "Source",
    "SourceFiles",
    "TicketSource",
    "WebSource",
    "load_sources",
    "open_source",
]


def _checked_base(url: str) -> str:
    if not url.startswith(("https://", "http://", "file://")):
        raise ValueError("expected an address that starts with https:// or http://")
    return url


def _checked_site(url: str) -> str:
    if not url.startswith(("https://", "http://")):
        raise ValueError("expected an address that starts with https:// or http://")
    return url


class SourceBase(BaseModel):
    """What all kinds of sources have."""

    model_config = ConfigDict(regex_engine="python-re", extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=60)
    """Short name, lower case, unique; part of every passage's identity."""
    enabled: bool = True
    """False keeps the source listed without reading it."""
    cluster: str | None = None
    """Cluster that all pages are about; None for all clusters."""
    language: str = Field("en", pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$")
    """BCP 47 code of pages that do not state their own."""
    base_url: Annotated[str, AfterValidator(_checked_base)] | None = None
    """Address under which the files are published; citations link there."""
    licence: str = ""
    """Terms of use, shown in reports."""
    include: tuple[str, ...] = ()
    """Globs of files to read; empty reads all of known formats."""
    exclude: tuple[str, ...] = ()
    """Globs of files and folders to leave out."""
    weight: float = Field(1.0, gt=0.0, le=10.0)
    """Factor on the rank of its passages; below 1 lets other sources come first."""
    size_limit_mb: float = Field(20.0, gt=0.0, le=2000.0)
    """Largest file read, in megabytes."""
    options: dict[str, Any] = {}
    """Settings for readers, such as ``variables``; and ``url_style``, ``strip_prefix``."""

    @model_validator(mode="after")
    def _check_options(self) -> SourceBase:
        style, styles = self.options.get("url_style", "auto"), get_args(UrlStyle)
        if style not in styles:
            hint = nearest(str(style), styles)
            known = ", ".join(styles)
            raise ValueError(f"options.url_style must be one of {known}, got {style!r}{hint}")
        prefix = self.options.get("strip_prefix", "")
        if not isinstance(prefix, str) and not _is_texts(prefix):
            expected = "a path or a list of paths"
            raise ValueError(f"options.strip_prefix must be {expected}, got {prefix!r}")
        return self

    @property
    def size_limit(self) -> int:
        """Largest file read, in bytes."""
        return int(self.size_limit_mb * 1_000_000)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


class FolderSource(SourceBase):
    """A folder of files."""

    kind: Literal["folder"] = "folder"
    path: str = Field(min_length=1)
    """The folder, relative to the workspace or absolute."""


class GitSource(SourceBase):
    """A git repository: a checkout on this machine, or one that is fetched."""

    kind: Literal["git"]
    url: Annotated[str, AfterValidator(check_url)] | None = None
    """Address to fetch from (https, ssh or file)."""
    path: str | None = None
    """Checkout on this machine, relative to the workspace or absolute."""
    ref: str | None = Field(None, pattern=rf"^{SAFE_REF.pattern}$")
    """Branch, tag or commit; None takes the default branch, or what is checked out."""
    subfolder: str = Field("", pattern=r"^(?!/)(?!.*(?:^|/)\.\.(?:/|$)).*$")
    """Folder in the repository that holds the documents."""

    @model_validator(mode="after")
    def _check_place(self) -> GitSource:
        if (self.url is None) == (self.path is None):
            raise ValueError("exactly one of 'url' and 'path' is needed")
        return self


class ManSource(SourceBase):
    """Man pages installed on this machine."""

    kind: Literal["man"]
    pages: tuple[Annotated[str, Field(pattern=r"^[^/\s]+\.[1-9]$")], ...] = ()
    """Single pages, such as ``sbatch.1``."""
    sections: tuple[Annotated[int, Field(ge=1, le=9)], ...] = ()
    """Sections to take pages of."""
    names: tuple[str, ...] = ()
    """Globs of page names within ``sections``, such as ``s*``; empty takes all."""
    folders: tuple[str, ...] = ()
    """Folders of manuals; empty asks ``manpath``."""

    @model_validator(mode="after")
    def _check_choice(self) -> ManSource:
        if not self.pages and not self.sections:
            raise ValueError("one of 'pages' and 'sections' is needed")
        return self


class WebSource(SourceBase):
    """A website."""

    kind: Literal["web"]
    url: Annotated[str, AfterValidator(_checked_site)]
    """Where to start; the crawl stays on its host and below its folder."""
    sitemap: bool = True
    """Look for sitemaps besides links."""
    follow: bool = True
    """Follow links; false takes what sitemaps list."""
    pages: int = Field(5000, ge=1, le=1_000_000)
    """Most pages."""
    depth: int = Field(12, ge=0, le=100)
    """Most links between the start and a page."""
    requests_per_second: float = Field(2.0, gt=0.0, le=1000.0)
    """Most requests a second; a longer Crawl-delay of the site is kept."""
    minutes: float = Field(60.0, gt=0.0, le=10_000.0)
    """Longest time of one crawl; the next ingest goes on from there."""
    refresh_hours: float = Field(12.0, ge=0.0, le=10_000.0)
    """Age up to which a finished crawl is not repeated; 0 asks the site at every ingest."""
    timeout_s: float = Field(30.0, gt=0.0, le=600.0)
    """Longest time of one request in seconds."""
    allow_private: bool = False
    """Allow private addresses (10.…, 192.168.…, localhost): for sites inside your network."""


class TicketSource(SourceBase):
    """An export of questions with answers."""

    kind: Literal["tickets"]
    path: str = Field(min_length=1)
    """The file (.jsonl or .csv), relative to the workspace or absolute."""
    mix: bool = False
    """True lets every search find tickets among the documentation; they are no approved text."""


Source: TypeAlias = FolderSource | GitSource | ManSource | WebSource | TicketSource

KINDS: dict[str, type[SourceBase]] = {
    "folder": FolderSource,
    "git": GitSource,
    "man": ManSource,
    "web": WebSource,
    "tickets": TicketSource,
}


def load_sources(path: Path) -> list[Source]:
    """Read the list of sources.

    Args:
        path: a TOML file of ``[[source]]`` tables.

    Returns:
        The sources that are switched on, in the file's order.

    Raises:
        ConfigError: the file cannot be read, or entries are wrong; all problems are listed.
    """
    data = read_toml(path)
    problems = [
        f"{key}: unknown key{nearest(key, ['source'])}. Sources are [[source]] tables"
        for key in data
        if key != "source"
    ]
    tables = data.get("source", [])
    if not isinstance(tables, list):
        problems.append("source: write [[source]], with two brackets, before each source")
        tables = []
    sources: list[Source] = []
    for number, table in enumerate(tables, 1):
        sources += _validated(number, table, problems)
    problems += _duplicates(sources)
    if problems:
        raise ConfigError(f"{path} has {len(problems)} problem(s):", problems)
    return [source for source in sources if source.enabled]


def _validated(number: int, table: Any, problems: list[str]) -> Iterator[Source]:
    if not isinstance(table, dict):
        problems.append(f"source {number}: expected a table, got {table!r}")
        return
    place = f"source {number} ({table.get('name', 'no name')})"
    kind = table.get("kind", "folder")
    model = KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        hint = nearest(str(kind), KINDS)
        problems.append(f"{place}: kind must be one of {', '.join(KINDS)}, got {kind!r}{hint}")
        return
    try:
        yield model.model_validate(table)  # type: ignore[misc]
    except ValidationError as exc:
        problems += [f"{place}: {problem}" for problem in problems_of(exc, model)]


def _duplicates(sources: list[Source]) -> list[str]:
    names = [source.name for source in sources]
    twice = {name: names.count(name) for name in names if names.count(name) > 1}
    return [f"name {name!r} stands at {n} sources: give each its own" for name, n in twice.items()]


def open_source(source: Source, *, workspace_root: Path, cache_dir: Path) -> SourceFiles:
    """Find the files of a source.

    Args:
        source: the source.
        workspace_root: folder that relative paths start from.
        cache_dir: folder for what is fetched.

    Returns:
        Its files; those that cannot be taken are listed with the reason.

    Raises:
        IngestError: the source as a whole cannot be opened.
    """
    match source:
        case FolderSource():
            return _open_folder(source, _placed(source.path, workspace_root))
        case GitSource():
            return _open_git(source, workspace_root, cache_dir)
        case ManSource():
            return _open_manuals(source, workspace_root)
        case TicketSource():
            return _open_export(source, _placed(source.path, workspace_root))
        case WebSource():
            return _open_site(source, cache_dir)


def _open_site(source: WebSource, cache_dir: Path) -> SourceFiles:
    from hpcllm.corpus.crawl import CrawlSettings, crawl
    from hpcllm.corpus.crawl_fetch import FetchLimits

    limits = FetchLimits(
        seconds=source.timeout_s, bytes=source.size_limit, allow_private=source.allow_private
    )
    settings = CrawlSettings(
        url=source.url,
        include=source.include,
        exclude=source.exclude,
        sitemap=source.sitemap,
        follow=source.follow,
        pages=source.pages,
        depth=source.depth,
        requests_per_second=source.requests_per_second,
        seconds=source.minutes * 60,
        fresh_s=source.refresh_hours * 3600,
        limits=limits,
    )
    try:
        site = crawl(settings, cache_dir)
    except IngestError as exc:
        raise IngestError(f"source {source.name}: {exc}") from exc
    if site.warning:
        logger.warning("source %s: %s", source.name, site.warning)
    entries = [_page_entry(site.folder / page.file, page.path, source) for page in site.pages]
    links = Links(known={page.path: page.url for page in site.pages})
    skipped = (*site.skipped, *([(".", site.warning)] if site.warning else []))
    return SourceFiles(site.folder, tuple(entries), "", skipped, links)


def _page_entry(location: Path, path: str, source: WebSource) -> FileEntry:
    status = location.stat()
    return FileEntry(path, status.st_size, status.st_mtime_ns, location, source.size_limit)


def _placed(path: str, workspace_root: Path) -> Path:
    return workspace_root / Path(path).expanduser()


def _open_export(source: TicketSource, file: Path) -> SourceFiles:
    """Take one file as it is: tickets are named by their number in it."""
    try:
        status = file.stat()
    except OSError as exc:
        raise IngestError(
            f"source {source.name}: {file} cannot be opened ({exc.strerror}): mend 'path' in "
            "sources.toml, or set enabled = false"
        ) from exc
    if not file.is_file():
        raise IngestError(f"source {source.name}: {file} is no file: 'path' names one export")
    entry = FileEntry(file.name, status.st_size, status.st_mtime_ns, file, source.size_limit)
    return SourceFiles(file.parent, (entry,), links=_links(source, file.parent, "", ""))


def _open_folder(
    source: SourceBase, folder: Path, revision: str = "", subfolder: str = ""
) -> SourceFiles:
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise IngestError(
            f"source {source.name}: {folder} {what}; expected a folder of documents: mend 'path' "
            "in sources.toml, or set enabled = false"
        )
    walk = FolderWalk(folder, source.include, source.exclude, source.size_limit)
    walk.run()
    if not walk.entries:
        wanted = f"files matching {', '.join(source.include)}" if source.include else "documents"
        reason = f"holds nothing to read: {wanted} were expected in {folder}"
        logger.warning("source %s: %s", source.name, reason)
        walk.skipped.append((".", reason))
    links = _links(source, folder, revision, subfolder)
    return SourceFiles(folder, tuple(walk.entries), revision, tuple(walk.skipped), links)


def _links(source: SourceBase, root: Path, revision: str, subfolder: str) -> Links:
    prefix = source.options.get("strip_prefix", ())
    prefixes = (prefix,) if isinstance(prefix, str) else tuple(prefix)
    style: UrlStyle = source.options.get("url_style", "auto")
    return Links(source.base_url, style, tuple(filter(None, prefixes)), root, revision, subfolder)


def _open_git(source: GitSource, workspace_root: Path, cache_dir: Path) -> SourceFiles:
    try:
        root = _checkout_of(source, workspace_root, cache_dir)
        revision = revision_of(root)
    except IngestError as exc:
        raise IngestError(f"source {source.name}: {exc}") from exc
    folder = root / source.subfolder
    top = top_of(root)
    inside = folder.resolve().relative_to(top).as_posix() if top else source.subfolder
    return _open_folder(source, folder, revision, "" if inside == "." else inside)


def _checkout_of(source: GitSource, workspace_root: Path, cache_dir: Path) -> Path:
    if source.url is not None:
        return fetch(source.url, source.ref, cache_dir)
    root = _placed(source.path or "", workspace_root)
    if not root.is_dir():
        raise IngestError(f"{root} does not exist: mend 'path' in sources.toml, or give 'url'")
    if not revision_of(root):
        raise IngestError(
            f'{root} is no git checkout with a commit: use kind = "folder" for plain folders'
        )
    if source.ref is None:
        return root
    return fetch(root.resolve().as_uri(), source.ref, cache_dir)


def _open_manuals(source: ManSource, workspace_root: Path) -> SourceFiles:
    folders = [_placed(name, workspace_root) for name in source.folders] or manual_folders()
    if not any(folder.is_dir() for folder in folders):
        raise IngestError(f"source {source.name}: {no_manuals()}")
    entries, skipped = find_pages(
        folders, source.pages, source.sections, source.names, source.size_limit
    )
    if not entries:
        logger.warning("source %s: no man page was found", source.name)
    root = entries[0].location.parent.parent if entries else folders[0]
    kept = tuple(entry for entry in entries if _is_chosen(source, entry.path))
    return SourceFiles(root, kept, "", tuple(skipped), _links(source, root, "", ""))


def _is_chosen(source: SourceBase, path: str) -> bool:
    included = not source.include or matches_any(path, source.include)
    return included and not matches_any(path, source.exclude)
