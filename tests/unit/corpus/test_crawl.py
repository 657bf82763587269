"""Crawls of real servers on loopback, most of which misbehave."""

from __future__ import annotations

import gzip
import os
import signal
import socket
import subprocess
import sys
import time
import zlib
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from hpcllm.corpus.crawl import CrawledSite, CrawlSettings, crawl
from hpcllm.corpus.crawl_fetch import Fetcher, FetchError, FetchLimits
from hpcllm.corpus.ingest import ReadSettings, open_sources, read_corpus
from hpcllm.corpus.sources import load_sources
from hpcllm.errors import ConfigError, IngestError
from tests.unit.corpus.web_server import Website, page, reply, served

LIMITS = FetchLimits(seconds=2.0, stall_s=1.0, bytes=1_000_000, allow_private=True)


def run(site: Website, cache: Path, path: str = "/", **changes: object) -> CrawledSite:
    values: dict = {"requests_per_second": 1000.0, "limits": LIMITS} | changes
    return crawl(CrawlSettings(url=site.address + path, **values), cache)


def paths(result: CrawledSite) -> list[str]:
    return [found.path for found in result.pages]


def reasons(site: Website, result: CrawledSite) -> dict[str, str]:
    return {url.removeprefix(site.address): reason for url, reason in result.skipped}


def test_links_and_sitemaps_are_followed_within_host_and_folder(tmp_path: Path) -> None:
    pages = {
        "/robots.txt": (200, {"Content-Type": "text/plain"}, b"Sitemap: /docs/map.xml\n"),
        "/docs/": page("Home", "a/", "/blog/", "https://other.example/", "b.html?utm_source=x#top"),
        "/docs/a/": page("A", "../", "../b.html", "mailto:x@y.example", "javascript:void(0)"),
        "/docs/b.html": page("B", "style.css", "plan.png"),
        "/docs/lonely": page("Lonely"),
        "/blog/": page("Blog"),
        "/docs/sitemap.xml": (
            200, {"Content-Type": "application/xml"},
            b"<sitemapindex><sitemap><loc>SITE/docs/map2.xml</loc></sitemap></sitemapindex>",
        ),
    }  # fmt: skip
    with served(pages) as site:
        address = site.address.encode()
        index = pages["/docs/sitemap.xml"]
        site.pages["/docs/sitemap.xml"] = (200, index[1], index[2].replace(b"SITE", address))
        body = b"<urlset><url><loc>" + address + b"/docs/lonely</loc></url></urlset>"
        site.pages["/docs/map2.xml"] = (200, {}, gzip.compress(body))
        result = run(site, tmp_path, "/docs/")
        assert paths(result) == ["a/index.html", "b.html", "index.html", "lonely.html"]
        assert result.pages[1].url == f"{site.address}/docs/b.html"
        assert site.asked["/blog/"] == 0
        assert site.asked["/docs/plan.png"] == 0
        assert site.asked["/docs/b.html"] == 1
        assert all(agent.startswith("hpcllm/") for agent in site.agents)


def test_what_is_unchanged_is_not_sent_again_and_what_is_gone_goes(tmp_path: Path) -> None:
    pages = {f"/p{n}": page(f"P{n}", f"/p{n + 1}") for n in range(5)} | {
        "/": page("Home", "/p0", "/x", "/y"), "/x": page("X"), "/y": page("Y")
    }  # fmt: skip
    with served(pages) as site:
        first = run(site, tmp_path)
        assert len(first.pages) == 8
        before = {p.path: (first.folder / p.file).stat().st_mtime_ns for p in first.pages}
        site.pages["/p1"] = page("P1", "/p2", text="The limit is now 9 days.")
        site.pages["/"] = page("Home", "/p0", "/x")
        del site.pages["/x"]
        site.reset()
        second = run(site, tmp_path)
        assert dict(site.sent) == {"/": 1, "/p1": 1}
        assert paths(second) == ["index.html", "p0.html", "p1.html", "p2.html", "p3.html",
                                 "p4.html"]  # fmt: skip
        assert "status 404" in reasons(site, second)["/x"]
        assert f"linked from {site.address}/" in reasons(site, second)["/x"]
        after = {p.path: (second.folder / p.file).stat().st_mtime_ns for p in second.pages}
        changed = [path for path in after if after[path] != before[path]]
        assert changed == ["index.html", "p1.html"]
        assert len(list(second.folder.iterdir())) == 6


def test_last_modified_serves_where_there_is_no_etag(tmp_path: Path) -> None:
    def dated(request: BaseHTTPRequestHandler) -> None:
        when = "Mon, 01 Jan 2024 00:00:00 GMT"
        if request.headers.get("If-Modified-Since") == when:
            reply(request, 304, {}, b"")
            return
        bodies.append(request.path)
        headers = {"Content-Type": "text/html", "Last-Modified": when}
        reply(request, 200, headers, page("Dated").encode())

    bodies: list[str] = []
    with served({"/": dated}) as site:
        for _ in range(3):
            assert paths(run(site, tmp_path)) == ["index.html"]
        assert bodies == ["/"]


def test_robots_txt_is_obeyed(tmp_path: Path) -> None:
    robots = b"User-agent: other\nDisallow: /\n\nUser-agent: *\nDisallow: /*private\nAllow: /a/\n"
    pages = {
        "/robots.txt": (200, {}, robots),
        "/": page("Home", "/private", "/a/private", "/x/private.html"),
        "/private": page("P"),
        "/a/private": page("AP"),
        "/x/private.html": page("XP"),
    }
    with served(pages) as site:
        result = run(site, tmp_path)
        assert paths(result) == ["index.html"]
        assert site.asked["/private"] == 0
        assert reasons(site, result)["/private"].startswith("robots.txt of the site forbids it")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((200, {}, b"User-agent: *\nDisallow: /"), "robots.txt of the site forbids crawling"),
        ((503, {"Retry-After": "0"}, b""), "robots.txt answers with status 503"),
    ],
)
def test_a_site_that_forbids_crawling_is_left_alone(
    tmp_path: Path, answer: tuple, message: str
) -> None:
    with served({"/robots.txt": answer, "/": page("Home")}) as site:
        with pytest.raises(IngestError, match=message):
            run(site, tmp_path)
        assert site.asked["/"] == 0


def test_noindex_nofollow_canonical_and_header(tmp_path: Path) -> None:
    pages = {
        "/": page("Home", "/noindex", "/nofollow", "/copy?print=1", "/header"),
        "/noindex": page("N", "/behind", head='<meta name="robots" content="noindex">'),
        "/behind": page("Behind"),
        "/nofollow": page("F", "/hidden", head='<meta name="robots" content="nofollow">'),
        "/hidden": page("Hidden"),
        "/copy?print=1": page("Copy", head='<link rel="canonical" href="/copy">'),
        "/copy": page("Copy", head='<link rel="canonical" href="/copy">'),
        "/header": (200, {"Content-Type": "text/html", "X-Robots-Tag": "noindex"}, b"<p>h</p>"),
    }
    with served(pages) as site:
        result = run(site, tmp_path)
        assert paths(result) == ["behind.html", "copy.html", "index.html", "nofollow.html"]
        site.reset()
        run(site, tmp_path)
        assert dict(site.sent) == {"/header": 1}


def test_a_canonical_address_shared_by_a_whole_template_is_ignored(tmp_path: Path) -> None:
    head = '<link rel="canonical" href="/">'
    pages = {f"/p{n}": page(f"P{n}", head=head) for n in range(30)}
    pages["/"] = page("Home", *pages, head=head)
    with served(pages) as site:
        assert len(run(site, tmp_path).pages) == 31


def test_redirects_are_checked_at_every_hop(tmp_path: Path) -> None:
    with served({"/robots.txt": b"", "/": page("Secret of another host")}) as other:
        port = other.address.rpartition(":")[2]
        pages = {
            "/": page("Home", "/moved", "/away", "/inside", "/loop1", "/nowhere", "/file"),
            "/moved": (301, {"Location": "/new/place"}, b""),
            "/new/place": page("New"),
            "/away": (302, {"Location": f"{other.address}/"}, b""),
            "/inside": (302, {"Location": f"http://localhost:{port}/"}, b""),
            "/loop1": (302, {"Location": "/loop2"}, b""),
            "/loop2": (302, {"Location": "/loop1"}, b""),
            "/nowhere": (302, {}, b""),
            "/file": (302, {"Location": "file:///etc/passwd"}, b""),
        }
        with served(pages) as site:
            result = run(site, tmp_path)
            assert paths(result) == ["index.html", "new/place.html"]
            found = reasons(site, result)
            assert found["/away"].startswith("redirects to another site (127.0.0.1:")
            assert found["/inside"].startswith(f"redirects to another site (localhost:{port})")
            assert found["/nowhere"].startswith("redirects to no address")
            assert found["/file"].startswith("redirects to no address")
            assert site.asked["/loop1"] == 1
        assert not other.asked


def test_an_endless_chain_of_redirects_ends_at_the_depth(tmp_path: Path) -> None:
    def onward(request: BaseHTTPRequestHandler) -> None:
        number = int(request.path.removeprefix("/r")) + 1
        site.pages[f"/r{number}"] = onward
        reply(request, 302, {"Location": f"/r{number}"}, b"")

    with served({"/": page("Home", "/r0"), "/r0": onward}) as site:
        assert paths(run(site, tmp_path, depth=5)) == ["index.html"]
        assert sum(count for path, count in site.asked.items() if path.startswith("/r")) <= 6


def test_private_addresses_are_refused_however_they_are_written(tmp_path: Path) -> None:
    strict = FetchLimits(seconds=2.0)
    with served({"/": page("Home")}) as site:
        port = site.address.rpartition(":")[2]
        for host in ("127.0.0.1", "localhost", "127.1", "2130706433", "[::ffff:127.0.0.1]"):
            settings = CrawlSettings(url=f"http://{host}:{port}/", limits=strict)
            with pytest.raises(IngestError, match=r"private address.*allow_private = true"):
                crawl(settings, tmp_path)
        assert not site.asked


def test_a_name_that_leads_inside_is_refused_and_looked_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []

    def rebinding(host: str, port: int, **_: object) -> list:
        looked_up.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.7", port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    with (
        Fetcher(FetchLimits(seconds=1.0), "test") as fetcher,
        pytest.raises(FetchError, match=r"docs\.example has a private address \(10\.0\.0\.7\)"),
    ):
        fetcher.get("http://docs.example/")
    assert looked_up == ["docs.example"]


def drip(request: BaseHTTPRequestHandler) -> None:
    """Send a byte now and then, without end."""
    request.send_response(200)
    request.send_header("Content-Type", "text/html")
    request.end_headers()
    while True:
        request.wfile.write(b"x")
        time.sleep(0.1)


def slow_head(request: BaseHTTPRequestHandler) -> None:
    """Send the head of the answer a byte at a time."""
    for byte in b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 10_000:
        request.wfile.write(bytes([byte]))
        time.sleep(0.05)


def endless(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Type", "text/html")
    request.end_headers()
    while True:
        request.wfile.write(b"<p>more</p>" * 5000)


def cut_off(request: BaseHTTPRequestHandler) -> None:
    headers = {"Content-Type": "text/html", "Content-Length": "5000"}
    reply(request, 200, headers, b"<p>only this")
    request.close_connection = True


def nonsense(request: BaseHTTPRequestHandler) -> None:
    request.wfile.write(b"\x00\xff this is not HTTP\r\n\r\n")
    request.close_connection = True


def packed(body: bytes, encoding: str = "gzip") -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "text/html", "Content-Encoding": encoding}, body


BOMB = gzip.compress(b"\0" * 50_000_000)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (drip, "took longer than 2 s"),
        (slow_head, "took longer than 2 s"),
        (endless, "is larger than 1 MB"),
        (cut_off, "cannot be fetched"),
        (nonsense, "cannot be fetched"),
        (packed(BOMB), "larger than 1 MB"),
        (packed(BOMB[:900]), "ended before it was complete"),
        (packed(b"<p>not gzip</p>"), "cannot be unpacked"),
        (packed(b"x", "br"), "encoding 'br'"),
        ((200, {"Content-Type": "text/html"}, b"x" * 2_000_000), "larger than 1 MB"),
        ((200, {"Content-Type": "application/zip"}, b"PK"), "no reader for this kind of page"),
        ((403, {}, b""), "status 403"),
        ((500, {}, b""), "status 500"),
    ],
    ids=["drip", "slow head", "endless", "cut off", "nonsense", "bomb", "cut gzip", "no gzip",
         "brotli", "long", "zip", "403", "500"],
)  # fmt: skip
def test_a_page_that_misbehaves_costs_itself_only(
    tmp_path: Path, answer: object, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpcllm.corpus.crawl.RETRIES", 0)
    pages = {"/": page("Home", "/bad", "/good"), "/good": page("Good"), "/bad": answer}
    with served(pages) as site:
        result = run(site, tmp_path)
        assert paths(result) == ["good.html", "index.html"]
        assert reason in reasons(site, result)["/bad"]


def test_a_page_that_fails_for_now_stays_with_what_it_links_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpcllm.corpus.crawl.RETRIES", 0)
    pages = {"/": page("Home", "/a"), "/a": page("A", "/b"), "/b": page("B")}
    with served(pages) as site:
        run(site, tmp_path)
        site.pages["/a"] = (502, {}, b"")
        result = run(site, tmp_path)
        assert paths(result) == ["a.html", "b.html", "index.html"]
        assert "status 502" in reasons(site, result)["/a"]


def test_a_site_that_is_down_leaves_everything_as_it_was(tmp_path: Path) -> None:
    with served({"/": page("Home", "/a"), "/a": page("A")}) as site:
        run(site, tmp_path)
    result = run(site, tmp_path)
    assert paths(result) == ["a.html", "index.html"]
    assert "cannot be fetched" in result.warning
    again = run(site, tmp_path)
    assert paths(again) == ["a.html", "index.html"]


def test_a_site_that_goes_down_meanwhile_is_not_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpcllm.corpus.crawl.RETRIES", 0)
    pages = {f"/p{n}": page(f"P{n}") for n in range(30)}
    pages["/"] = page("Home", *pages)
    with served(pages) as site:
        run(site, tmp_path)
        for name in list(site.pages)[5:30]:
            site.pages[name] = (503, {}, b"")
        result = run(site, tmp_path)
        assert "out of reach" in result.warning
        assert len(result.pages) == 31
        for name in list(site.pages)[5:30]:
            site.pages[name] = page(f"New {name}")
        assert not run(site, tmp_path).warning


def test_patience_is_shown_where_a_site_asks_for_it(tmp_path: Path) -> None:
    def busy(request: BaseHTTPRequestHandler) -> None:
        if site.asked["/a"] == 1:
            reply(request, 429, {"Retry-After": "0"}, b"")
        else:
            reply(request, 200, {"Content-Type": "text/html"}, page("A").encode())

    with served({"/": page("Home", "/a"), "/a": busy}) as site:
        assert paths(run(site, tmp_path)) == ["a.html", "index.html"]


def test_traps_of_links_without_end_are_left(tmp_path: Path) -> None:
    def deeper(request: BaseHTTPRequestHandler) -> None:
        path = request.path.rstrip("/")
        links = [f"{path}/again/", f"{path}/{site.asked.total()}/", "again/again/"]
        reply(request, 200, {"Content-Type": "text/html"}, page("Deep", *links).encode())
        for link in links:
            site.pages[link] = deeper

    with served({"/": deeper}) as site:
        result = run(site, tmp_path, depth=6, pages=40)
        assert len(result.pages) <= 40
        assert site.asked.total() < 100


def test_the_limit_of_pages_is_said(tmp_path: Path) -> None:
    pages = {f"/p{n}": page(f"P{n}") for n in range(30)}
    pages["/"] = page("Home", *pages)
    with served(pages) as site:
        result = run(site, tmp_path, pages=10)
        assert len(result.pages) == 10
        assert any("limit of 10 pages" in reason for _, reason in result.skipped)


LATIN = "<html><head>{meta}<title>Größe</title></head><body><p>Übungsläufe für alle</p></body>"


@pytest.mark.parametrize(
    ("header", "meta", "encoding"),
    [
        ("text/html; charset=iso-8859-1", "", "latin-1"),
        ("text/html; charset=utf-8", "", "latin-1"),
        ("text/html", '<meta charset="windows-1252">', "cp1252"),
        ("text/html; charset=iso-8859-1", "", "utf-8"),
        ("text/html; charset=no-such-thing", '<meta charset="utf-16">', "latin-1"),
        ("text/html", "", "utf-16"),
        ("text/html; charset=utf-8", "", "utf-8-sig"),
    ],
)
def test_wrong_encodings_still_give_the_text(
    tmp_path: Path, header: str, meta: str, encoding: str
) -> None:
    body = LATIN.format(meta=meta).encode(encoding)
    with served({"/": (200, {"Content-Type": header}, body)}) as site:
        [document] = documents_of(site, tmp_path)
        assert document.title == "Größe"
        assert "Übungsläufe für alle" in document.text


def sources_of(site: Website, root: Path, extra: str = ""):
    listing = root / "sources.toml"
    listing.write_text(
        f'[[source]]\nname = "site"\nkind = "web"\nurl = "{site.address}/"\n'
        f"allow_private = true\nrequests_per_second = 1000\nrefresh_hours = 0\n{extra}\n"
    )
    return load_sources(listing)


def documents_of(site: Website, root: Path, extra: str = ""):
    sources = sources_of(site, root, extra)
    opened = open_sources(sources, workspace_root=root, cache_dir=root / "cache")
    corpus = read_corpus(
        sources, opened, count_tokens=lambda t: len(t.split()), settings=ReadSettings()
    )
    return corpus.documents


def test_a_website_becomes_documents_with_the_addresses_of_its_pages(tmp_path: Path) -> None:
    pages = {
        "/": page("Home", "/guide?id=gpu"),
        "/guide?id=gpu": page("GPU jobs", text="Ask for a GPU with <code>--gres=gpu:1</code>."),
    }
    with served(pages) as site:
        documents = documents_of(site, tmp_path, 'exclude = ["old/**"]')
        assert [(d.title, d.url.removeprefix(site.address)) for d in documents] == [
            ("GPU jobs", "/guide?id=gpu"),
            ("Home", "/"),
        ]
        assert "`--gres=gpu:1`" in documents[0].text


def test_a_fresh_copy_is_not_asked_for_again(tmp_path: Path) -> None:
    with served({"/": page("Home")}) as site:
        run(site, tmp_path)
        site.reset()
        assert paths(run(site, tmp_path, fresh_s=3600.0)) == ["index.html"]
        assert not site.asked
        run(site, tmp_path, fresh_s=3600.0, exclude=("x",))
        assert site.asked["/"] == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('url = "ftp://x.example"', "url: .*starts with https://"),
        ('url = "https://x.example"\npages = 0', "pages: .*greater than or equal to 1"),
        ('url = "https://x.example"\nalow_private = true', "did you mean 'allow_private'"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, line: str, message: str) -> None:
    listing = tmp_path / "sources.toml"
    listing.write_text(f'[[source]]\nname = "w"\nkind = "web"\n{line}\n')
    with pytest.raises(ConfigError, match=message):
        load_sources(listing)


def test_a_damaged_state_says_what_to_remove(tmp_path: Path) -> None:
    with served({"/": page("Home")}) as site:
        run(site, tmp_path)
        [state] = (tmp_path / "web").glob("*/state.sqlite")
        for extra in state.parent.glob("state.sqlite-*"):
            extra.unlink()
        state.write_bytes(b"damaged" * 1000)
        with pytest.raises(IngestError, match="remove that folder to crawl the site anew"):
            run(site, tmp_path)


def big_site(count: int) -> dict[str, str]:
    """Pages that link in a tree of ten branches, so that most are three links deep."""
    pages = {"/": page("Home", *[f"/p{n}" for n in range(1, 11)])}
    for n in range(1, count):
        links = [f"/p{m}" for m in range(10 * n + 1, 10 * n + 11) if m < count]
        pages[f"/p{n}"] = page(f"Page {n}", "/", *links, text=f"The limit of queue {n} is {n} h.")
    return pages


CRAWL = """
import sys
from pathlib import Path
from hpcllm.corpus.crawl import CrawlSettings, crawl
from hpcllm.corpus.crawl_fetch import FetchLimits
limits = FetchLimits(allow_private=True)
crawl(CrawlSettings(url=sys.argv[1], requests_per_second=1000, limits=limits), Path(sys.argv[2]))
"""


def test_a_crawl_of_2000_pages_goes_on_after_kill_9_and_then_sends_only_changes(
    tmp_path: Path,
) -> None:
    with served(big_site(2000)) as site:
        process = subprocess.Popen([sys.executable, "-c", CRAWL, f"{site.address}/", str(tmp_path)])
        while site.sent.total() < 700:
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        before = site.sent.total()
        assert 700 <= before < 1900
        result = run(site, tmp_path)
        assert len(result.pages) == 2000
        assert site.sent.total() <= 2000 + 1, "the page in progress at most is sent twice"
        site.reset()
        site.pages["/p7"] = page("Page 7", "/", *[f"/p{m}" for m in range(71, 81)], text="New.")
        site.pages["/p1999"] = page("Page 1999", "/", text="New too.")
        again = run(site, tmp_path)
        assert len(again.pages) == 2000
        assert dict(site.sent) == {"/p7": 1, "/p1999": 1}


def test_deflate_is_unpacked_in_both_forms() -> None:
    from hpcllm.corpus.crawl_fetch import unpacked

    assert unpacked([zlib.compress(b"text")], "deflate", 100) == b"text"
    assert unpacked([gzip.compress(b"text")], "x-gzip", 100) == b"text"
    assert unpacked([b"te", b"xt"], "", 4) == b"text"
    with pytest.raises(FetchError, match="larger than"):
        unpacked([b"te", b"xt"], "", 3)
