"""Addresses of a website: one form for each, what is in scope, and names of pages for citations.

Role: pure functions of :mod:`hpcllm.corpus.crawl`; nothing is fetched here.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, unquote, urlencode, urljoin, urlsplit, urlunsplit

from hpcllm.corpus.matching import matches_any
from hpcllm.corpus.readers.base import word_set

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_ADDRESS = 1500
"""Characters past which an address is a trap or a search form."""

SAME_SEGMENTS = 3
"""A segment that stands more often in one path comes from links that are relative by mistake."""

DROPPED_PARAMETERS = re.compile(
    r"^(?:utm_\w+|fbclid|gclid|phpsessid|jsessionid|sid|session(?:id)?|sessid|replytocom)$",
    re.IGNORECASE,
)
"""Parameters that name a visitor, not a page."""

IGNORED_SUFFIXES = tuple(
    word_set(
        ".png .jpg .jpeg .gif .svg .ico .webp .css .js .mjs .json .xml .rss .atom .zip .gz .tgz"
        " .bz2 .xz .tar .7z .mp4 .mp3 .mov .avi .webm .woff .woff2 .ttf .eot .exe .msi .dmg .deb"
        " .rpm .whl .iso .ppt .pptx .xls .xlsx .doc .odt .csv .yaml .yml .sh .py .c .h .map .sif"
    )
)
"""Ends of addresses that no reader takes."""

DEFAULT_PORTS = {"http": 80, "https": 443}
SUFFIX_BY_TYPE = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "application/pdf": ".pdf",
    "text/markdown": ".md",
    "text/x-rst": ".rst",
    "text/plain": ".txt",
}
"""Content types that readers take."""


def canonical_address(url: str, base: str = "") -> str | None:
    """Return the one form of an address that a crawl knows it by, or None for what is no page.

    Host in lower case, default port and fragment dropped, path normalised and quoted once,
    parameters of visitors dropped and the others sorted.

    >>> canonical_address("../a b/./c?utm_source=x&id=3#top", "HTTP://Docs.Example:80/x/y/")
    'http://docs.example/x/a%20b/c?id=3'
    """
    if not url.strip():
        return None
    try:
        parts = urlsplit(urljoin(base, url.strip()))
        port = parts.port
    except ValueError:
        return None
    scheme, host = parts.scheme.lower(), (parts.hostname or "").lower().rstrip(".")
    if scheme not in DEFAULT_PORTS or not host or parts.username or parts.password:
        return None
    try:
        host = host.encode("idna").decode() if not host.isascii() else host
    except UnicodeError:
        return None
    netloc = f"[{host}]" if ":" in host else host
    if port and port != DEFAULT_PORTS[scheme]:
        netloc += f":{port}"
    path = _normal_path(parts.path)
    query = _normal_query(parts.query)
    found = urlunsplit((scheme, netloc, path, query, ""))
    return found if len(found) <= LONGEST_ADDRESS and found.isprintable() else None


def _normal_path(path: str) -> str:
    text = unquote(path, errors="surrogateescape")
    normal = posixpath.normpath(text) if text else "/"
    normal = "/" + normal.lstrip("/")
    if text.endswith(("/", "/.", "/..")) and normal != "/":
        normal += "/"
    return quote(normal, safe="/~:@!$&'()*+,;=", errors="surrogateescape")


def _normal_query(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    return urlencode(sorted((k, v) for k, v in pairs if not DROPPED_PARAMETERS.match(k)))


@dataclass(frozen=True, slots=True)
class Scope:
    """Which addresses belong to the website.

    Attributes:
        start: canonical address to start from; its host and its folder bound the crawl.
        include: globs of paths, relative to the start's folder; empty takes all.
        exclude: globs of paths to leave out.
    """

    start: str
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()

    @property
    def folder(self) -> str:
        """Path of the start's folder with a slash at its end; ``/docs`` is taken for a folder."""
        path = unquote(urlsplit(self.start).path)
        folder, _, name = path.rpartition("/")
        return f"{folder if '.' in name else path}/" if name else path

    def same_host(self, url: str) -> bool:
        """Say whether an address has the host of the start, on its port or with HTTPS instead."""
        first, other = urlsplit(self.start), urlsplit(url)
        if first.hostname != other.hostname:
            return False
        return first.netloc == other.netloc and (
            first.scheme == other.scheme or other.scheme == "https"
        )

    def holds(self, url: str) -> bool:
        """Say whether an address may be fetched as a page."""
        path = unquote(urlsplit(url).path)
        if not self.same_host(url) or not f"{path}/".startswith(self.folder):
            return False
        segments = [segment for segment in path.split("/") if segment]
        if any(segments.count(segment) > SAME_SEGMENTS for segment in segments):
            return False
        if path.lower().endswith(IGNORED_SUFFIXES):
            return False
        inside = path[len(self.folder) :] or "index.html"
        if self.exclude and matches_any(inside, self.exclude):
            return False
        return not self.include or url == self.start or matches_any(inside, self.include)

    def page_path(self, url: str, content_type: str) -> str:
        """Return the path that a page is cited by, with the suffix that its reader goes by.

        >>> Scope("https://x.example/d/").page_path("https://x.example/d/a/?id=3", "text/html")
        'a/index-id_3.html'
        """
        parts = urlsplit(url)
        path = unquote(parts.path, errors="replace")[len(self.folder) :]
        stem, suffix = posixpath.splitext(
            path if path and not path.endswith("/") else f"{path}index"
        )
        wanted = SUFFIX_BY_TYPE.get(content_type, ".html")
        if suffix.lower() not in (wanted, ".htm", ".xhtml"):
            stem, suffix = stem + suffix, wanted
        if parts.query:
            stem = f"{stem}-{_named(unquote(parts.query))}"
        return "/".join(_named(segment) for segment in f"{stem}{suffix}".split("/"))


def _named(text: str) -> str:
    """Return text as one segment of a path, long ones by their hash."""
    name = re.sub(r"[^\w.~+-]+", "_", text).lstrip(".") or "_"
    if len(name) <= 120:
        return name
    return (
        f"{name[:80]}-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:10]}{name[-8:]}"
    )
