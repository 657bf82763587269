"""Take secrets and personal data out of text.

Role: run before anything that users wrote is stored, logged or sent on, and over documents at
ingest. Pure: text in, text and findings out. What is replaced is named in its place, such as
``[redacted: GitHub token]``, so that a reader sees that something was there.

Placeholders stay (``password=<your password>``, ``TOKEN=$MY_TOKEN``, ``xxxxx``), since
documentation is full of them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that was taken out; what it was is not kept.

    Attributes:
        kind: what it looked like, such as ``private key``.
        line: line in the original text, from 1.
        start: offset of its first character in the original text.
        end: offset after its last character.
    """

    kind: str
    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern whose group ``secret`` (or the whole match) is replaced where ``accept`` agrees."""

    kind: str
    pattern: re.Pattern[str]
    accept: Callable[[str], bool] = lambda _: True


_PLACEHOLDER = re.compile(
    r"""^(?: [<\[{(].* | .*[>\]})] | \$.* | %.*%? | \*+ | \.{2,} | …  | x{3,} | -+ | _+
        | (?:my|your|the|a|some|this|example|sample|dummy|fake|test|change|insert|replace|put)
          [-_ ].* | (?:my|your)(?:pass|secret|token|key)\w*
        | .*(?:example|placeholder|changeme|redacted|secret_here|password_here).*
        | none | null | nil | true | false | yes | no | prompt | required | optional | stdin
        | (?:[a-z]+[-_ ])*(?:password|passwd|passphrase|token|secret)s?
        | api_?key | key | string | str
        | os\.environ.* | getpass.* | process\.env.* | os\.getenv.* | input\(.* | env\..*
    )$""",
    re.VERBOSE | re.IGNORECASE,
)
_LOOKS_SECRET = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])|(?=.*[^\w\s])(?=.*[A-Za-z0-9])")
MINIMUM_ENTROPY_BITS = 3.0
"""Bits per character below which the value of a token assignment is taken for a word."""


def _is_real(value: str) -> bool:
    """Tell a value from a placeholder."""
    value = value.strip("\"'`,;.*_")
    return len(value) >= 4 and not _PLACEHOLDER.match(value) and len(set(value)) > 2


def _is_password(value: str) -> bool:
    """Tell a password from a placeholder, a word, a path or an address."""
    value = value.strip("\"'`,;.*_")
    is_place = value.startswith(("/", "~", "./", "http://", "https://"))
    return _is_real(value) and not is_place and _LOOKS_SECRET.match(value) is not None


def _is_key_body(body: str) -> bool:
    """Tell the body of a key from prose that names its header."""
    return re.search(r"[A-Za-z0-9+/=]{40}", body) is not None and "..." not in body


_FILE = re.compile(r"\.(?:log|txt|sh|conf|cfg|ini|py|json|ya?ml|toml|pem|key|crt|out|err|html?)$")
"""Ends of file names, which grep and similar commands have after ``token=``."""


def _is_token(value: str) -> bool:
    return (
        not _FILE.search(value)
        and _is_real(value)
        and len(value) >= 12
        and _entropy_bits(value) >= MINIMUM_ENTROPY_BITS
    )


def _is_varied(value: str) -> bool:
    """Tell a generated token from its description (``ghp_xxxxxxxx``)."""
    return len(set(value)) > 6 and "example" not in value.lower()


def _entropy_bits(text: str) -> float:
    counts = Counter(text).values()
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts)


_NAME = r"(?<![\w-])(?P<name>[\w.-]{0,40}?(?:%s))"
_SEPARATOR = r"[\"']?[ \t]{0,3}(?:=|:(?![:/])|=>)[ \t]{0,3}"
_VALUE = (
    r"(?:\"(?P<s1>[^\"\n]{4,200})\"|'(?P<s2>[^'\n]{4,200})'|(?P<s3>[^\s\"'`,;|&<>()\[\]{}]{4,200}))"
)

_SECRETS: tuple[_Rule, ...] = (
    _Rule(
        "private key",
        re.compile(
            r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
            r"(?P<secret>(?:(?!-----BEGIN )[\s\S]){20,20000}?)"
            r"(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|\Z)"
        ),
        _is_key_body,
    ),
    _Rule(
        "JSON web token",
        re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    ),
    _Rule(
        "GitHub token",
        re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_[A-Za-z0-9_]{40,255})\b"),
        _is_varied,
    ),
    _Rule("GitLab token", re.compile(r"\bgl(?:pat|ptt|dt|rt)-[\w-]{20,80}"), _is_varied),
    _Rule("Hugging Face token", re.compile(r"\b(?:hf|api_org)_[A-Za-z0-9]{30,60}\b"), _is_varied),
    _Rule("Slack token", re.compile(r"\bx(?:ox[abeoprs]|app)-[A-Za-z0-9-]{10,250}"), _is_varied),
    _Rule(
        "Slack webhook",
        re.compile(
            r"https://hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[\w/]{20,})"
        ),
        _is_varied,
    ),
    _Rule("AWS access key", re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), _is_varied),
    _Rule(
        "AWS secret key",
        re.compile(
            r"(?i:aws.{0,20}secret.{0,20}?|secret_?access_?key)[\"']?\s{0,3}[=:]\s{0,3}[\"']?"
            r"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
        ),
        _is_varied,
    ),
    _Rule(
        "API key",
        re.compile(
            r"\b(?:sk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{20,200}|AIza[A-Za-z0-9_-]{35}"
            r"|(?:sk|rk)_live_[A-Za-z0-9]{16,99}|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{32,250}"
            r"|hpcllm_[a-z0-9]{6,16}_[A-Za-z0-9_-]{30,80})"
        ),
        lambda value: _is_varied(value) and bool(re.search(r"\d", value)),
    ),
    _Rule(
        "password in a URL",
        re.compile(
            r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s:@/\"'<>]{0,100}:(?P<secret>[^\s@/\"'<>]{1,200})@"
        ),
        _is_real,
    ),
    _Rule(
        "authorization header",
        re.compile(
            r"(?i:\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:bearer|basic|token)\s{1,3})"
            r"(?P<secret>[A-Za-z0-9._~+/=-]{8,2000})"
        ),
        _is_real,
    ),
    _Rule(
        "password",
        re.compile(
            _NAME % r"(?i:passw(?:or)?d|passwd|passphrase|pwd(?=\s?[=:])|senha|contraseña)"
            + _SEPARATOR
            + _VALUE
        ),
        _is_password,
    ),
    _Rule(
        "password",
        re.compile(
            r"(?i:\b(?:my|minha|the) (?:password|passphrase|senha) (?:is|é) (?:\"|'|`)?)"
            r"(?P<secret>[^\s\"'`]{4,100})"
        ),
        _is_password,
    ),
    _Rule(
        "password",
        re.compile(
            r"\b(?:mysql|mysqldump|mariadb)\s[^\n|;]{0,80}?\s-p(?P<secret>[^\s\"'-][^\s]{3,80})"
            r"|\bcurl\s[^\n|;]{0,200}?(?:-u|--user)[ =][\"']?(?!user(?:name)?:|\$)"
            r"[^\s:\"']{1,80}:(?P<s2>[^\s\"']{4,100})"
            r"|\bsshpass\s{1,3}-p\s{0,3}[\"']?(?P<s3>[^\s\"']{4,100})"
        ),
        _is_real,
    ),
    _Rule(
        "token",
        re.compile(
            _NAME % r"(?i:token|secret|(?:api|access|auth)[_-]?key|client[_-]?secret|credential)s?"
            + _SEPARATOR
            + _VALUE
        ),
        lambda value: _is_token(value) and re.search(r"\d", value) is not None,
    ),
)

_COMMON_HOMES = frozenset(
    {"user", "username", "users", "userid", "user_name", "your_username", "yourusername"}
    | {"youruser", "your_user", "myuser", "jdoe", "shared", "public", "local", "me", "you", "name"}
    | {"netid", "groups", "group", "projects", "project"}
)
"""Names below /home that stand for anybody's."""

_PERSONAL: tuple[_Rule, ...] = (
    _Rule(
        "e-mail address",
        re.compile(
            r"(?<![\w.+%/@-])[\w.+%-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.)+[A-Za-z]{2,24}\b"
            r"(?![\w.-]*:[\w~/.])"  # scp and git address a host that way: user@host.org:path
        ),
        lambda value: value.split("@")[0].lower() not in {"git", "user", "username", "you"},
    ),
    _Rule(
        "home path",
        re.compile(r"(?<![\w.~-])/(?:home|users|Users|u)/(?P<secret>[A-Za-z0-9][\w.-]{0,63})"),
        lambda value: value.lower() not in _COMMON_HOMES,
    ),
    _Rule(
        "telephone number",
        re.compile(
            r"(?<![\w+./-])\+[1-9]\d{0,2}[ ./-]?(?:\(\d{1,4}\)[ -]?)?\d(?:[ ./-]?\d){6,12}(?!\w)"
        ),
    ),
)


def redact(text: str, *, personal: bool = False) -> tuple[str, list[Finding]]:
    """Take secrets out of ``text``, and personal data where asked for.

    Args:
        text: any text.
        personal: also take out e-mail addresses and the user's name in home paths. Off for
            documentation, which names its support address on purpose.

    Returns:
        The text with ``[redacted: KIND]`` in place of each, and the findings in order. Text without
        any comes back unchanged. Applying it twice changes nothing more.
    """
    rules = _SECRETS + _PERSONAL if personal else _SECRETS
    found = {span for rule in rules for span in _spans(rule, text)}
    spans = sorted(found, key=lambda span: (span[0], -span[1], span[2]))
    pieces: list[str] = []
    findings: list[Finding] = []
    done = 0
    for start, end, kind in spans:
        if start < done:
            continue  # inside what an earlier or longer one took out
        pieces += [text[done:start], f"[redacted: {kind}]"]
        findings.append(Finding(kind, text.count("\n", 0, start) + 1, start, end))
        done = end
    return "".join([*pieces, text[done:]]), findings


def _spans(rule: _Rule, text: str) -> Iterator[tuple[int, int, str]]:
    for match in rule.pattern.finditer(text):
        group = _secret_group(match)
        value = match.group(group)
        if rule.accept(value) and not value.startswith("[redacted"):
            yield match.start(group), match.end(group), rule.kind


def _secret_group(match: re.Match[str]) -> str | int:
    return next((g for g in ("secret", "s1", "s2", "s3") if match.groupdict().get(g)), 0)
