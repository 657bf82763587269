"""What a crawler must know of a page: its links, its canonical address, whether to keep it.

Role: pure; bytes and headers in, plain values out.
"""

from __future__ import annotations

import codecs
import gzip
import html
import re
from dataclasses import dataclass

from hpcllm.corpus.crawl_address import canonical_address

MOST_LINKS = 5000
"""Links of one page that are followed."""

LARGEST_SITEMAP = 20_000_000
"""Bytes of a sitemap once unpacked."""

META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
HEADER_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
LOCATION = re.compile(rb"<(?:\w+:)?loc>\s*(?:<!\[CDATA\[)?\s*([^<\]\s]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What one HTML page says to crawlers.

    Attributes:
        links: canonical addresses that it links to, in order, each once.
        canonical: the address that it calls its own, or empty.
        index: whether it may be kept.
        follow: whether its links may be followed.
    """

    links: tuple[str, ...] = ()
    canonical: str = ""
    index: bool = True
    follow: bool = True


def page_facts(text: str, url: str, robots_header: str) -> PageFacts:
    """Return what an HTML page says to crawlers.

    Args:
        text: the page.
        url: where it was found.
        robots_header: ``X-Robots-Tag``, or empty.
    """
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(text)
    base = url
    directives = robots_header.lower()
    canonical = ""
    for node in tree.css("base[href], link[rel][href], meta[name][content]"):
        values = {name: value or "" for name, value in node.attributes.items()}
        if node.tag == "base":
            base = canonical_address(values["href"], url) or base
        elif node.tag == "link" and "canonical" in values["rel"].lower().split():
            canonical = canonical or canonical_address(values["href"], url) or ""
        elif node.tag == "meta" and values["name"].lower() in ("robots", "hpcllm"):
            directives += "," + values["content"].lower()
    none = bool(re.search(r"\bnone\b", directives))
    follow = not none and "nofollow" not in directives
    links = _links(tree, base) if follow else ()
    return PageFacts(links, canonical, not none and "noindex" not in directives, follow)


def _links(tree: object, base: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    selector = "a[href], area[href], iframe[src], frame[src], meta[http-equiv][content]"
    for node in tree.css(selector):  # type: ignore[attr-defined]
        if "nofollow" in (node.attributes.get("rel") or ""):
            continue
        target = node.attributes.get("href") or node.attributes.get("src") or ""
        if node.tag == "meta":
            refresh = re.search(
                r"url\s*=\s*[\"']?([^\"'>]+)", node.attributes["content"] or "", re.I
            )
            target = refresh.group(1) if refresh else ""
        address = canonical_address(target, base) if target else None
        if address:
            found[address] = None
        if len(found) >= MOST_LINKS:
            break
    return tuple(found)


def as_utf8(body: bytes, content_type_header: str) -> bytes:
    """Return the text of a page in UTF-8, whatever its server or its head say of it.

    What is valid UTF-8 is UTF-8, for that is no accident; else the header counts, then the page's
    own word; where neither fits, the bytes stay and the reader guesses.
    """
    if body.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return body
    try:
        body.decode("utf-8")
        return body
    except UnicodeDecodeError:
        pass
    named = HEADER_CHARSET.search(content_type_header)
    inside = META_CHARSET.search(body[:4096])
    names = [named.group(1) if named else "", inside.group(1).decode("ascii") if inside else ""]
    for name in names:
        try:
            # Sites that say Latin-1 mean its superset with quotation marks, as browsers know.
            wide = "cp1252" if codecs.lookup(name).name == "iso8859-1" else name
            return body.decode(wide).encode()
        except (LookupError, UnicodeError, ValueError):
            continue
    return body


def sitemap_locations(body: bytes) -> tuple[list[str], bool]:
    """Return the addresses in a sitemap and whether they are further sitemaps.

    Args:
        body: the file, packed with gzip or not; anything but a sitemap gives no address.

    Read by pattern and not by an XML parser: entities that expand without end do nothing here.
    """
    if body.startswith(b"\x1f\x8b"):
        body = _unzipped(body)
    is_index = re.search(rb"<(?:\w+:)?sitemapindex\b", body[:4096]) is not None
    if not is_index and re.search(rb"<(?:\w+:)?urlset\b", body[:4096]) is None:
        lines = body[:LARGEST_SITEMAP].decode("utf-8", "replace").split()
        return [line for line in lines if line.startswith(("http://", "https://"))], False
    found = LOCATION.findall(body)
    return [html.unescape(value.decode("utf-8", "replace")) for value in found], is_index


def _unzipped(body: bytes) -> bytes:
    import io

    try:
        with gzip.open(io.BytesIO(body)) as stream:
            return stream.read(LARGEST_SITEMAP)
    except (OSError, EOFError):
        return b""
