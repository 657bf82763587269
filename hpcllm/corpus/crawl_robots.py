"""robots.txt: what a site lets a crawler fetch, how fast, and where its sitemaps lie.

Role: pure parsing and matching after RFC 9309, with ``*`` and ``$`` in paths, which the standard
library's parser takes literally, and the longest rule winning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

LARGEST_BYTES = 512_000
"""Bytes of the file that are read, as RFC 9309 asks for at least."""


@dataclass
class _Group:
    agents: list[str] = field(default_factory=list)
    rules: list[tuple[bool, str]] = field(default_factory=list)
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Robots:
    """The rules for one crawler.

    Attributes:
        rules: (allowed, path pattern) pairs.
        delay_s: seconds that the site wants between two requests.
        sitemaps: addresses of sitemaps.
    """

    rules: tuple[tuple[bool, str], ...] = ()
    delay_s: float = 0.0
    sitemaps: tuple[str, ...] = ()

    def allows(self, url: str) -> bool:
        """Say whether an address may be fetched: the longest matching rule decides."""
        parts = urlsplit(url)
        path = _quoted(parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        best, verdict = -1, True
        for allowed, pattern in self.rules:
            longer = len(pattern) > best or (len(pattern) == best and allowed)
            if longer and _matches(pattern, path):
                best, verdict = len(pattern), allowed
        return verdict


def parse_robots(data: bytes, agent: str) -> Robots:
    r"""Read the rules for ``agent``, or those for all where none name it.

    Args:
        data: the file.
        agent: product name of the crawler, such as ``hpcllm``.

    >>> rules = parse_robots(b"User-agent: *\nDisallow: /*.php$\nCrawl-delay: 2", "hpcllm")
    >>> rules.allows("https://x.example/a.php"), rules.allows("https://x.example/a")
    (False, True)
    """
    groups, sitemaps = _groups(data[:LARGEST_BYTES].decode("utf-8", "replace"))
    chosen = [g for g in groups if any(a != "*" and a in agent.lower() for a in g.agents)]
    chosen = chosen or [group for group in groups if "*" in group.agents]
    rules = tuple(rule for group in chosen for rule in group.rules)
    return Robots(rules, max((group.delay_s for group in chosen), default=0.0), tuple(sitemaps))


def _groups(text: str) -> tuple[list[_Group], list[str]]:
    groups: list[_Group] = []
    sitemaps: list[str] = []
    naming = False
    for raw in text.lstrip("\ufeff").splitlines():
        key, separator, value = raw.partition("#")[0].partition(":")
        key, value = key.strip().lower(), value.strip()
        if not separator:
            continue
        if key == "sitemap":
            sitemaps.append(raw.partition(":")[2].strip())
        elif key == "user-agent":
            if not naming:
                groups.append(_Group())
            groups[-1].agents.append(value.lower())
        elif groups:
            _add(groups[-1], key, value)
        naming = key == "user-agent" or (naming and key == "sitemap")
    return groups, sitemaps


def _add(group: _Group, key: str, value: str) -> None:
    if key in ("allow", "disallow") and value:
        group.rules.append((key == "allow", _quoted(value)))
    elif key == "crawl-delay" and re.fullmatch(r"\d+(?:\.\d+)?", value):
        group.delay_s = float(value)


def _quoted(path: str) -> str:
    return quote(
        unquote(path, errors="surrogateescape"), "/*$?=&~:@!'()+,;", errors="surrogateescape"
    )


def _matches(pattern: str, path: str) -> bool:
    """Match by parts between stars: no regular expression that a site could make slow."""
    ends = pattern.endswith("$")
    first, *parts = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    for index, part in enumerate(parts):
        if ends and index == len(parts) - 1:
            return len(path) - len(part) >= at and path.endswith(part)
        place = path.find(part, at)
        if place < 0:
            return False
        at = place + len(part)
    return not ends or bool(parts) or at == len(path)
