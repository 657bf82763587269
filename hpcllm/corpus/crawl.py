"""Crawl one website, politely and within limits, and bring what was crawled before up to date.

Role: ``WebSource`` settings -> files of pages. One page at a time; every step is on disk before the
next, so that a killed crawl goes on where it was. What has not changed is asked for and not sent
again (``ETag``, ``Last-Modified``); what is gone there goes here. What cannot be reached for the
moment stays as it was.
"""

from __future__ import annotations

import hashlib
import logging
import posixpath
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import hpcllm
from hpcllm.corpus.crawl_address import SUFFIX_BY_TYPE, Scope, canonical_address
from hpcllm.corpus.crawl_fetch import Fetcher, FetchError, FetchLimits
from hpcllm.corpus.crawl_page import PageFacts, as_utf8, page_facts, sitemap_locations
from hpcllm.corpus.crawl_robots import Robots, parse_robots
from hpcllm.corpus.crawl_state import STATE_VERSION, CrawlState, Page, body_name
from hpcllm.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hpcllm.corpus.crawl_fetch import Reply

logger = logging.getLogger(__name__)

AGENT = "hpcllm"
MOST_REDIRECTS = 6
MOST_SITEMAPS = 50
FAILURES_IN_A_ROW = 8
"""Failed requests without a good one between them after which the site counts as out of reach."""
RETRIES = 2
LONGEST_WAIT_S = 30.0
"""Longest that a site's wish for a pause (``Retry-After``, ``Crawl-delay``) is granted."""
RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
SHARED_CANONICAL = 20
"""Pages that may call one other address their own; more are a mistake in the site's template."""
LOCK_TIMEOUT_S = 5.0
PROGRESS_PAGES = 100
"""Pages between two lines in the log."""


@dataclass(frozen=True, slots=True)
class CrawlSettings:
    """What to crawl and how gently.

    Attributes:
        url: where to start; its host and folder bound the crawl.
        include: globs of paths to take, relative to that folder; empty takes all.
        exclude: globs of paths to leave out.
        sitemap: whether to look for sitemaps.
        follow: whether to follow links.
        pages: most pages.
        depth: most links from the start.
        requests_per_second: most requests a second; a site's ``Crawl-delay`` may lower it.
        seconds: most time for one run; the next goes on from there.
        fresh_s: age up to which a finished crawl is not repeated.
        limits: what one request may take.
    """

    url: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    sitemap: bool = True
    follow: bool = True
    pages: int = 5000
    depth: int = 12
    requests_per_second: float = 2.0
    seconds: float = 3600.0
    fresh_s: float = 0.0
    limits: FetchLimits = field(default_factory=FetchLimits)

    def fingerprint(self) -> str:
        """Return a hash of what decides which pages belong to the site."""
        values = (STATE_VERSION, self.url, self.include, self.exclude, self.sitemap, self.follow,
                  self.pages, self.depth, self.limits.bytes)  # fmt: skip
        return hashlib.sha256(repr(values).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class CrawledSite:
    """What is at hand after a crawl.

    Attributes:
        folder: folder of the bodies.
        pages: pages that may be read, sorted by path.
        skipped: (path, reason) of addresses that gave no page.
        warning: why it may be incomplete or old, or empty.
    """

    folder: Path
    pages: tuple[Page, ...]
    skipped: tuple[tuple[str, str], ...]
    warning: str = ""


def crawl(settings: CrawlSettings, cache_dir: Path) -> CrawledSite:
    """Bring the copy of a website up to date and return it.

    Args:
        settings: what to crawl.
        cache_dir: folder for copies of websites.

    Raises:
        IngestError: the site cannot be reached or forbids crawling, and there is no earlier copy.
    """
    start = canonical_address(settings.url)
    if start is None:
        raise IngestError(f"{settings.url!r} is no address of a website: expected https://…")
    name = re.sub(r"[^\w.-]+", "-", urlsplit(start).netloc)[:60]
    digest = hashlib.sha256(start.encode()).hexdigest()[:12]
    folder = cache_dir / "web" / f"{name}-{digest}"
    with _locked(folder):
        state = CrawlState(folder)
        try:
            return _crawled(settings, start, state)
        finally:
            state.close()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / "lock", timeout=LOCK_TIMEOUT_S):
            yield
    except Timeout as exc:
        raise IngestError(
            f"another ingest crawls the same site now ({folder}); wait for it to end"
        ) from exc


def _crawled(settings: CrawlSettings, start: str, state: CrawlState) -> CrawledSite:
    fingerprint = settings.fingerprint()
    warning = ""
    if state.age_s(fingerprint) > settings.fresh_s:
        fetcher = Fetcher(settings.limits, f"{AGENT}/{hpcllm.__version__} (documentation index)")
        with fetcher:
            warning = _Run(settings, Scope(start, settings.include, settings.exclude), state,
                           fetcher).go(fingerprint)  # fmt: skip
    pages = _readable(state.pages())
    if not pages and warning:
        raise IngestError(f"{settings.url}: {warning}")
    return CrawledSite(state.bodies, pages, _skipped(state), warning)


def _skipped(state: CrawlState) -> tuple[tuple[str, str], ...]:
    return tuple(
        (url, f"{reason} (linked from {referrer})" if referrer else reason)
        for url, referrer, reason in state.problems()
    )


def _readable(pages: Sequence[Page]) -> tuple[Page, ...]:
    """Return the pages to read, without those that call another page at hand their original."""
    known = {page.url for page in pages if page.kept}
    counts: dict[str, int] = {}
    for page in pages:
        if page.canonical and page.canonical != page.url:
            counts[page.canonical] = counts.get(page.canonical, 0) + 1
    originals = {page.url: page.canonical for page in pages}
    kept = []
    for page in pages:
        other = page.canonical
        is_copy = other and other != page.url and other in known
        # Two pages that name each other are both kept, and so are pages of a broken template.
        mutual = is_copy and originals.get(other) not in ("", other)
        if page.kept and (not is_copy or mutual or counts[other] > SHARED_CANONICAL):
            kept.append(page)
    return tuple(kept)


@dataclass
class _Run:
    """One run over a site."""

    settings: CrawlSettings
    scope: Scope
    state: CrawlState
    fetcher: Fetcher
    robots: Robots = field(default_factory=Robots)
    next_request: float = 0.0
    failed: list[str] = field(default_factory=list)
    met: int = 0
    reached: bool = False

    def go(self, fingerprint: str) -> str:
        """Crawl until the end or a limit; return why it is incomplete, or an empty string."""
        resumed = self.state.is_running(fingerprint)
        refusal = self._read_robots()
        if refusal:
            return refusal
        if resumed:
            logger.info("going on with the crawl of %s", self.settings.url)
        else:
            self.state.begin(fingerprint)
            self._seed()
        self.met = self.state.count()
        end = time.monotonic() + self.settings.seconds
        while (item := self.state.next()) is not None:
            if self.met >= self.settings.pages:
                self._note_limit()
                break
            if time.monotonic() > end:
                return "the crawl ran out of time; the next hpcllm ingest goes on from there"
            if len(self.failed) >= FAILURES_IN_A_ROW:
                self.state.reopen(self.failed)
                return "the site is out of reach at the moment; pages read before are used"
            self._visit(*item)
        if self.failed and not self.reached:
            self.state.reopen(self.failed)
            return self._first_problem()
        for url in self.state.finish():
            logger.info("%s is gone from the site", url)
        return ""

    def _first_problem(self) -> str:
        problems = self.state.problems()
        return problems[0][2] if problems else "the site gave no page"

    def _note_limit(self) -> None:
        self.state.problem(
            self.settings.url, "",
            f"the crawl ended at its limit of {self.settings.pages} pages: raise pages of the "
            "source, or exclude a part of the site",
        )  # fmt: skip

    def _read_robots(self) -> str:
        """Read robots.txt; return why nothing may be fetched, or an empty string."""
        parts = urlsplit(self.scope.start)
        url = f"{parts.scheme}://{parts.netloc}/robots.txt"
        try:
            reply = self._followed(url)
        except FetchError as exc:
            return f"robots.txt {exc}"
        if reply.status in RETRIED_STATUSES:
            return f"robots.txt answers with status {reply.status}, which forbids crawling for now"
        if reply.status == 200:
            self.robots = parse_robots(reply.body, AGENT)
        if not self.robots.allows(self.scope.start):
            return "robots.txt of the site forbids crawling this address"
        return ""

    def _followed(self, url: str) -> Reply:
        """Fetch a file of the site itself, redirects within its host followed."""
        for _ in range(MOST_REDIRECTS):
            reply = self._request(url)
            target = canonical_address(reply.headers.get("location", ""), url)
            if reply.status not in range(300, 400) or not target:
                return reply
            if not self.scope.same_host(target):
                break
            url = target
        return reply

    def _seed(self) -> None:
        self.state.enqueue([self.scope.start], 0, "")
        if not self.settings.sitemap:
            return
        parts = urlsplit(self.scope.start)
        site = f"{parts.scheme}://{parts.netloc}"
        pending = [*self.robots.sitemaps, f"{site}{self.scope.folder}sitemap.xml"]
        pending += [] if self.scope.folder == "/" else [f"{site}/sitemap.xml"]
        seen: set[str] = set()
        while pending and len(seen) < MOST_SITEMAPS:
            url = canonical_address(pending.pop(0))
            if url is None or url in seen or not self.scope.same_host(url):
                continue
            seen.add(url)
            found, are_sitemaps = self._sitemap(url)
            if are_sitemaps:
                pending += found
            else:
                self._enqueue([canonical_address(place) or "" for place in found], 1, url)

    def _sitemap(self, url: str) -> tuple[list[str], bool]:
        try:
            reply = self._followed(url)
        except FetchError as exc:
            logger.info("sitemap %s %s", url, exc)
            return [], False
        return sitemap_locations(reply.body) if reply.status == 200 else ([], False)

    def _enqueue(self, urls: Sequence[str], depth: int, referrer: str) -> None:
        if depth <= self.settings.depth:
            chosen = [url for url in urls if url and self.scope.holds(url)]
            self.state.enqueue(chosen, depth, referrer)

    def _visit(self, url: str, depth: int, referrer: str) -> None:
        known = self.state.page(url)
        if not self.robots.allows(url):
            self._end(url, referrer, "robots.txt of the site forbids it", drop=True)
            return
        try:
            reply = self._request(url, known, pages_only=True)
        except FetchError as exc:
            if exc.passing:
                self.failed.append(url)
            self._failed(url, depth, referrer, str(exc), known if exc.passing else None)
            return
        if reply.status in RETRIED_STATUSES:
            self.failed.append(url)
            self._failed(url, depth, referrer, f"answers with status {reply.status}", known)
            return
        self.failed, self.reached = [], True
        self.state.begin_step()
        if reply.status == 304 and known:
            self._take(known, None, depth)
        elif reply.status == 200:
            self._received(url, reply, known, depth, referrer)
        elif reply.status in range(300, 400):
            self._redirected(url, reply, depth, referrer)
        else:
            self.state.drop(url)
            self.state.problem(url, referrer, f"answers with status {reply.status}")
        self.state.done(url)
        self.state.end_step()

    def _end(self, url: str, referrer: str, reason: str, *, drop: bool = False) -> None:
        if drop:
            self.state.drop(url)
        self.state.problem(url, referrer, reason)
        self.state.done(url)

    def _failed(self, url: str, depth: int, referrer: str, reason: str, known: Page | None) -> None:
        """Account for an address that failed; a page known from before stays, with its links."""
        if known:
            self._take(known, None, depth)
        self._end(url, referrer, reason, drop=known is None)

    def _take(self, page: Page, body: bytes | None, depth: int) -> None:
        if body is None:
            self.state.keep(page.url)
        else:
            self.state.store(page, body)
        self.met += 1
        if self.met % PROGRESS_PAGES == 0:
            logger.info("%s: %d pages", self.settings.url, self.met)
        if self.settings.follow:
            self._enqueue(page.links, depth + 1, page.url)

    def _received(
        self, url: str, reply: Reply, known: Page | None, depth: int, referrer: str
    ) -> None:
        kind = reply.content_type or "text/html"
        if kind not in SUFFIX_BY_TYPE:
            self.state.drop(url)
            self.state.problem(url, referrer, f"no reader for this kind of page ({kind})")
            return
        is_html = SUFFIX_BY_TYPE[kind] == ".html"
        header = reply.headers.get("content-type", "")
        body = as_utf8(reply.body, header) if kind != "application/pdf" else reply.body
        facts = PageFacts()
        if is_html:
            text = body.decode("utf-8", "replace")
            facts = page_facts(text, url, reply.headers.get("x-robots-tag", ""))
        digest = hashlib.sha256(body).hexdigest()
        page = Page(
            url=url,
            path=self._path(url, kind),
            file=body_name(url, SUFFIX_BY_TYPE[kind]),
            type=kind,
            etag=reply.headers.get("etag", ""),
            modified=reply.headers.get("last-modified", ""),
            sha256=digest,
            links=facts.links,
            canonical=facts.canonical if self.scope.holds(facts.canonical) else "",
            kept=facts.index,
        )
        if known and known.file != page.file:
            self.state.drop(url)
            known = None
        same = known is not None and known.sha256 == digest
        # An unchanged body keeps its file and date, so that nothing is read again for it.
        if same:
            self.state.store(page, None)
        self._take(page, None if same else body, depth)
        if page.canonical:
            self._enqueue([page.canonical], depth + 1, url)

    def _path(self, url: str, kind: str) -> str:
        """Return a name for citations that no other page has."""
        path = self.scope.page_path(url, kind)
        taken = self.state.owner(path)
        if taken in ("", url):
            return path
        stem, suffix = posixpath.splitext(path)
        return f"{stem}-{hashlib.sha256(url.encode()).hexdigest()[:8]}{suffix}"

    def _redirected(self, url: str, reply: Reply, depth: int, referrer: str) -> None:
        self.state.drop(url)
        target = canonical_address(reply.headers.get("location", ""), url)
        if target is None:
            self.state.problem(url, referrer, "redirects to no address")
        elif not self.scope.same_host(target):
            place = urlsplit(target).netloc
            advice = f": set url to {target} if the site has moved" if not depth else ""
            self.state.problem(url, referrer, f"redirects to another site ({place}){advice}")
        elif not self.scope.holds(target):
            self.state.problem(url, referrer, "redirects out of the part of the site to read")
        else:
            # A chain of redirects counts as links, so that one without end meets the depth.
            self._enqueue([target], depth + 1, referrer or url)

    def _request(self, url: str, known: Page | None = None, *, pages_only: bool = False) -> Reply:
        """Fetch an address at the site's pace, again where it asks for patience."""
        etag, modified = (known.etag, known.modified) if known else ("", "")
        if known and not (self.state.bodies / known.file).is_file():
            etag = modified = ""
        for attempt in range(RETRIES + 1):
            self._pace()
            try:
                reply = self.fetcher.get(
                    url, etag=etag, modified=modified, wanted=_is_page if pages_only else _is_any
                )
            except FetchError as exc:
                if not exc.passing or attempt == RETRIES or self.failed:
                    raise
                logger.info("%s %s; trying again", url, exc)
                continue
            if reply.status not in RETRIED_STATUSES or attempt == RETRIES:
                return reply
            time.sleep(_pause_s(reply, attempt))
        raise AssertionError("unreachable")

    def _pace(self) -> None:
        now = time.monotonic()
        if now < self.next_request:
            time.sleep(self.next_request - now)
        pause = max(1 / self.settings.requests_per_second, min(self.robots.delay_s, LONGEST_WAIT_S))
        self.next_request = max(now, self.next_request) + pause


def _is_any(_: str) -> bool:
    return True


def _is_page(content_type: str) -> bool:
    return not content_type or content_type in SUFFIX_BY_TYPE


def _pause_s(reply: Reply, attempt: int) -> float:
    asked = reply.headers.get("retry-after", "")
    return min(float(asked) if asked.isdecimal() else 0.5 * 2**attempt, LONGEST_WAIT_S)
